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

run "a_key_attribute_with_two_types" {
  command = plan
  variables {
    create_tables = true
    tables = { ExamBuddyTable = { global_secondary_indexes = {
      by_score   = { hash_key = "score", hash_key_type = "N" }
      by_score_2 = { hash_key = "score", hash_key_type = "S" }
    } } }
  }
  expect_failures = [aws_dynamodb_table.source]
}

run "an_index_that_gives_a_key_of_the_table_another_type" {
  command = plan
  variables {
    create_tables = true
    tables        = { ExamBuddyTable = { global_secondary_indexes = { by_sort = { hash_key = "SK", hash_key_type = "N" } } } }
  }
  expect_failures = [aws_dynamodb_table.source]
}

run "an_index_of_a_lookup_with_another_key" {
  command = plan
  variables {
    create_tables = true
    tables        = { ExamBuddyTable = { global_secondary_indexes = { GSI1 = { hash_key = "GSI1PK" } } } }
  }
  expect_failures = [aws_dynamodb_table.source]
}

run "an_unknown_type_of_a_key" {
  command = plan
  variables {
    create_tables = true
    tables        = { ExamBuddyTable = { global_secondary_indexes = { by_score = { hash_key = "score", hash_key_type = "number" } } } }
  }
  expect_failures = [var.tables]
}
