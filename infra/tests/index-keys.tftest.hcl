# The types of the keys of a created table's indexes.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }
  mock_data "aws_region" {
    defaults = { id = "eu-west-1" }
  }
}

variables {
  name              = "exams"
  model_description = "tests/exambuddy.json"
  package_s3        = { bucket = "packages", prefix = "1/" }
}

run "the_keys_of_indexes_have_types" {
  command = plan
  variables {
    create_tables = true
    tables = {
      ExamBuddyTable = {
        global_secondary_indexes = {
          by_score   = { hash_key = "project_id", range_key = "score", range_key_type = "N" }
          by_hash    = { hash_key = "digest", hash_key_type = "B", range_key = "SK" }
          by_score_2 = { hash_key = "score" }
        }
      }
    }
  }
  assert {
    condition = { for attribute in aws_dynamodb_table.source["ExamBuddyTable"].attribute : attribute.name => attribute.type } == {
      PK = "S", SK = "S", GSI1PK = "S", GSI1SK = "S", project_id = "S", score = "N", digest = "B"
    }
    error_message = "Each attribute has its type; without one, it has that of another key, or S."
  }
}

run "an_index_has_the_type_of_the_key_of_its_table" {
  command = plan
  variables {
    model_description = "tests/quiz.json"
    create_tables     = true
    tables            = { quiz-wrong-answers = { global_secondary_indexes = { by_time = { hash_key = "category", range_key = "timestamp" } } } }
  }
  assert {
    condition     = alltrue([for attribute in aws_dynamodb_table.source["quiz-wrong-answers"].attribute : attribute.type == "S"])
    error_message = "The key's attributes are texts."
  }
}

# An attribute with two types, an index that gives a key of the table another type, an index of a lookup with another key, and one that the provider
# cannot create.
run "indexes_that_cannot_be_created" {
  command = plan
  variables {
    model_description = "tests/index-keys.json"
    create_tables     = true
    tables = { Branches = { global_secondary_indexes = {
      by_score   = { hash_key = "score", hash_key_type = "N" }
      by_score_2 = { hash_key = "score", hash_key_type = "S" }
      by_sort    = { hash_key = "SK", hash_key_type = "N" }
      ByCode     = { hash_key = "code", range_key = "SK" }
    } } }
  }
  expect_failures = [aws_dynamodb_table.source]
}

# The index with several attributes in a key is there already. The key that the provider reads is not compared.
run "an_existing_table_with_several_attributes_in_a_key" {
  command = plan
  variables {
    model_description = "tests/index-keys.json"
  }
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/Branches"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/Branches/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }, { name = "code", type = "S" }, { name = "country", type = "S" }]
      replica          = []
      global_secondary_index = [
        {
          name               = "ByCode", hash_key = "code", range_key = "", projection_type = "ALL"
          non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
        },
        {
          name               = "ByPlace", hash_key = "country", range_key = "", projection_type = "ALL"
          non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
        },
      ]
    }
  }
  assert {
    condition     = length(aws_lambda_event_source_mapping.stream) == 2
    error_message = "The table has the indexes that lookups query."
  }
}

run "an_unknown_type_of_a_key" {
  command = plan
  variables {
    create_tables = true
    tables        = { ExamBuddyTable = { global_secondary_indexes = { by_score = { hash_key = "score", hash_key_type = "number" } } } }
  }
  expect_failures = [var.tables]
}
