# Deployments that could not work, or would lose or miscount records, are refused when they are planned.

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
  # The table as the model exambuddy needs it.
  mock_data "aws_dynamodb_table" {
    defaults = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }, { name = "GSI1PK", type = "S" }, { name = "GSI1SK", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "ALL"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
}

variables {
  name              = "exams"
  model_description = "tests/exambuddy.json"
  package_s3        = { bucket = "packages", prefix = "1/" }
  create_alarms     = false
}

run "a_third_reader" {
  command = plan
  variables {
    other_stream_readers = 1
  }
  expect_failures = [terraform_data.model]
}

run "a_second_reader_of_a_global_table" {
  command = plan
  variables {
    create_tables = true
    tables        = { ExamBuddyTable = { replicas = ["us-east-1"] } }
  }
  expect_failures = [terraform_data.model]
}

run "another_reader_next_to_the_one_of_a_global_table" {
  command = plan
  variables {
    create_tables        = true
    single_reader        = true
    other_stream_readers = 1
    tables               = { ExamBuddyTable = { replicas = ["us-east-1"] } }
  }
  expect_failures = [terraform_data.model]
}

run "no_code" {
  command = plan
  variables {
    package_s3 = null
  }
  expect_failures = [terraform_data.model]
}

run "code_in_two_places" {
  command = plan
  variables {
    package_dir = "tests"
  }
  expect_failures = [terraform_data.model]
}

run "a_zip_that_is_not_built" {
  command = plan
  variables {
    package_s3  = null
    package_dir = "tests"
  }
  expect_failures = [aws_lambda_function.function]
}

run "zips_for_another_architecture" {
  command = plan
  variables {
    model_description = "tests/no-rollups-x86-64.json"
    architecture      = "arm64"
  }
  expect_failures = [terraform_data.model]
}

run "settings_of_an_unknown_table" {
  command = plan
  variables {
    tables = { Exams = { name = "exams" } }
  }
  expect_failures = [terraform_data.model]
}

run "filters_of_an_unknown_table" {
  command = plan
  variables {
    stream_filters = { Exams = ["{}"] }
  }
  expect_failures = [terraform_data.model]
}

run "a_source_table_that_is_the_state_table" {
  command = plan
  variables {
    state_table_name = "ExamBuddyTable"
  }
  expect_failures = [terraform_data.model]
}

run "two_tables_of_one_name" {
  command = plan
  variables {
    model_description = "tests/quiz.json"
    create_tables     = true
    tables            = { quiz-users = { name = "quiz" }, quiz-questions = { name = "quiz" } }
  }
  expect_failures = [terraform_data.model]
}

run "one_key_for_replicas_in_other_regions" {
  command = plan
  variables {
    create_tables = true
    single_reader = true
    kms_key_arn   = "arn:aws:kms:eu-west-1:123456789012:key/1"
    tables        = { ExamBuddyTable = { replicas = ["us-east-1"] } }
  }
  expect_failures = [terraform_data.model]
}

run "two_addresses_of_the_cache" {
  command = plan
  variables {
    cache_url            = "redis://cache:6379"
    cache_url_secret_arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:cache"
  }
  expect_failures = [terraform_data.model]
}

run "subnets_without_security_groups" {
  command = plan
  variables {
    cache_url      = "redis://cache:6379"
    vpc_subnet_ids = ["subnet-1"]
  }
  expect_failures = [terraform_data.model]
}

# A model without rollups.
run "nothing_to_derive" {
  command = plan
  variables {
    model_description = "tests/no-rollups.json"
    create_archive    = false
  }
  expect_failures = [terraform_data.model]
}

run "a_policy_of_more_than_10240_characters" {
  command = plan
  variables {
    cache_url_secret_arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:${join("-", [for number in range(1000) : "cache-and-path"])}"
  }
  expect_failures = [aws_iam_role_policy.function]
}

run "records_that_are_dropped_before_their_first_retry" {
  command = plan
  variables {
    stream_mapping = { maximum_record_age_in_seconds = 100 }
  }
  expect_failures = [aws_lambda_event_source_mapping.stream]
}

run "a_name_that_is_too_long_for_the_bucket_of_failed_records" {
  command = plan
  variables {
    name        = "a-name-of-the-thirty-letters-x"
    bucket_name = "exams"
  }
  override_data {
    target = data.aws_region.current
    values = { id = "ap-southeast-1" }
  }
  expect_failures = [aws_s3_bucket.failures]
}

run "a_table_without_a_stream" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = false
      stream_view_type = ""
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "ALL"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

run "a_stream_without_old_images" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_IMAGE"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "ALL"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

run "a_table_with_another_key" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "pk"
      range_key        = "SK"
      attribute        = [{ name = "pk", type = "S" }, { name = "SK", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "ALL"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

run "a_table_with_another_sort_key" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "sk"
      attribute        = [{ name = "PK", type = "S" }, { name = "sk", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "ALL"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

run "a_table_with_another_type_of_key" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "N" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "ALL"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

run "a_table_without_the_index_of_a_lookup" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn                    = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn             = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled         = true
      stream_view_type       = "NEW_AND_OLD_IMAGES"
      hash_key               = "PK"
      range_key              = "SK"
      attribute              = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }]
      replica                = []
      global_secondary_index = []
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

run "an_index_with_another_key" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI2SK", projection_type = "ALL"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

run "an_index_with_another_partition_key" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI2PK", range_key = "GSI1SK", projection_type = "ALL"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

run "an_index_that_copies_keys_alone" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "KEYS_ONLY"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

run "an_index_that_copies_some_attributes" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "INCLUDE"
        non_key_attributes = ["title"], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

run "another_index_may_copy_what_it_likes" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }]
      replica          = []
      global_secondary_index = [
        {
          name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "ALL"
          non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
        },
        {
          name               = "GSI2", hash_key = "SK", range_key = "PK", projection_type = "KEYS_ONLY"
          non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
        },
      ]
    }
  }
  assert {
    condition     = length(aws_lambda_event_source_mapping.stream) == 2
    error_message = "No lookup queries GSI2."
  }
}

run "two_readers_of_an_existing_global_table" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }]
      replica          = [{ region_name = "us-east-1", kms_key_arn = "" }]
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "ALL"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [terraform_data.model]
}

run "a_share_for_another_generation_of_the_model" {
  command = plan
  variables {
    canary = { aggregator = { version = "3", weight = 0.1 } }
  }
  override_data {
    target = data.aws_lambda_function.canary
    values = { description = "Afterwrite aggregator, model exambuddy, generation 2" }
  }
  expect_failures = [data.aws_lambda_function.canary]
}

run "a_share_for_another_version_of_the_same_generation" {
  command = plan
  variables {
    canary = { aggregator = { version = "3", weight = 0.1 } }
  }
  override_data {
    target = data.aws_lambda_function.canary
    values = { description = "Afterwrite aggregator, model exambuddy, generation 1" }
  }
  assert {
    condition     = aws_lambda_alias.live["aggregator"].routing_config[0].additional_version_weights == tomap({ "3" = 0.1 })
    error_message = "A tenth of the invocations goes to version 3."
  }
}

run "a_bulk_backfill_without_an_archive" {
  command = plan
  variables {
    bulk_backfill  = true
    create_archive = false
    cache_url      = "redis://cache:6379"
  }
  expect_failures = [aws_lambda_function.bulk]
}

run "a_bulk_backfill_without_rollups" {
  command = plan
  variables {
    model_description = "tests/no-rollups.json"
    bulk_backfill     = true
  }
  expect_failures = [aws_lambda_function.bulk]
}

run "a_name_and_a_stream_of_different_tables" {
  command = plan
  variables {
    tables = { ExamBuddyTable = { name = "exams", stream_arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/others/stream/2026-02-06T10:00:00.000" } }
  }
  expect_failures = [terraform_data.model]
}
