# Deployments that could not work, or would lose or miscount records, are refused when they are planned. A run breaks several rules that do not hide
# each other: planning costs more than what it refuses. tests/infrastructure/refusals.py has the messages that each run must have.

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

run "settings_that_contradict_the_model_or_each_other" {
  command = plan
  variables {
    # A third reader.
    other_stream_readers = 1
    # Code in two places.
    package_dir = "tests"
    # Settings of an unknown table, and a name and a stream of different tables.
    tables = {
      Exams          = { name = "exams" }
      ExamBuddyTable = { name = "ledger", stream_arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/others/stream/2026-02-06T10:00:00.000" }
    }
    # Filters of an unknown table.
    stream_filters = { Exams = ["{}"] }
    # A source table that is the state table.
    state_table_name = "ledger"
    # Two addresses of the cache.
    cache_url            = "redis://cache:6379"
    cache_url_secret_arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:cache"
    # Subnets without security groups.
    vpc_subnet_ids = ["subnet-1"]
  }
  expect_failures = [terraform_data.model]
}

run "several_tables_of_which_one_is_global" {
  command = plan
  variables {
    model_description = "tests/quiz.json"
    create_tables     = true
    # One key for replicas in other regions.
    kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:key/1"
    # Two tables of one name, and two readers of a global table.
    tables = { quiz-users = { name = "quiz", replicas = ["us-east-1"] }, quiz-questions = { name = "quiz" } }
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

# A model without rollups.
run "no_code_and_another_architecture_and_a_bulk_backfill_of_nothing" {
  command = plan
  variables {
    model_description = "tests/no-rollups-x86-64.json"
    architecture      = "arm64"
    package_s3        = null
    bulk_backfill     = true
  }
  expect_failures = [terraform_data.model, aws_lambda_function.bulk]
}

run "nothing_to_derive" {
  command = plan
  variables {
    model_description = "tests/no-rollups.json"
    create_archive    = false
  }
  expect_failures = [terraform_data.model]
}

run "zips_that_are_not_built_and_a_name_that_is_too_long_for_the_bucket_of_failed_records" {
  command = plan
  variables {
    package_s3  = null
    package_dir = "tests"
    name        = "a-name-of-the-thirty-letters-x"
    bucket_name = "exams"
  }
  override_data {
    target = data.aws_region.current
    values = { id = "ap-southeast-1" }
  }
  expect_failures = [aws_lambda_function.function, aws_s3_bucket.failures]
}

run "records_without_a_retry_and_fewer_reserved_exporters_than_run_at_once" {
  command = plan
  variables {
    # Records that are dropped before their first retry.
    stream_mapping = { maximum_record_age_in_seconds = 100 }
    # Fewer reserved exporters than run at once.
    functions = { exporter = { reserved_concurrent_executions = 15 } }
  }
  expect_failures = [aws_lambda_event_source_mapping.stream, aws_lambda_event_source_mapping.exporter]
}

run "an_expiration_before_a_transition_and_a_threshold_that_a_healthy_deployment_reaches" {
  command = plan
  variables {
    archive_expiration_days = 90
    create_alarms           = true
    heartbeat_schedule      = "rate(6 hours)"
  }
  expect_failures = [aws_s3_bucket_lifecycle_configuration.archive, aws_cloudwatch_metric_alarm.alarm]
}

run "a_policy_of_more_than_10240_characters_and_a_bulk_backfill_without_an_archive" {
  command = plan
  variables {
    cache_url_secret_arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:${join("-", [for number in range(1000) : "cache-and-path"])}"
    bulk_backfill        = true
    create_archive       = false
  }
  expect_failures = [aws_iam_role_policy.function, aws_lambda_function.bulk]
}

# Another key, and the index of a lookup is missing.
run "a_table_without_a_stream" {
  command = plan
  override_data {
    target = data.aws_dynamodb_table.source
    values = {
      arn                    = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn             = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled         = false
      stream_view_type       = ""
      hash_key               = "pk"
      range_key              = "SK"
      attribute              = [{ name = "pk", type = "S" }, { name = "PK", type = "S" }, { name = "SK", type = "S" }]
      replica                = []
      global_secondary_index = []
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

# Another sort key, and an index with another sort key that copies keys alone.
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
      range_key        = "sk"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }, { name = "sk", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI2SK", projection_type = "KEYS_ONLY"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  expect_failures = [data.aws_dynamodb_table.source]
}

# An index with another partition key that copies some attributes, and a share for another generation of the model.
run "a_table_with_another_type_of_key" {
  command = plan
  variables {
    canary = { aggregator = { version = "3", weight = 0.1 } }
  }
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
        name               = "GSI1", hash_key = "GSI2PK", range_key = "GSI1SK", projection_type = "INCLUDE"
        non_key_attributes = ["title"], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
  override_data {
    target = data.aws_lambda_function.canary
    values = { description = "Afterwrite aggregator, model exambuddy, generation 2" }
  }
  expect_failures = [data.aws_dynamodb_table.source, data.aws_lambda_function.canary]
}

# Another index may copy what it likes, a share may go to another version of the same generation, and S3 takes these days.
run "what_is_just_allowed" {
  command = plan
  variables {
    canary                  = { aggregator = { version = "3", weight = 0.1 } }
    bucket_name             = "exams.archive"
    archive_transitions     = [{ days = 60, storage_class = "GLACIER_IR" }, { days = 30, storage_class = "STANDARD_IA" }, { days = 61, storage_class = "DEEP_ARCHIVE" }]
    archive_expiration_days = 62
    verify_schedule         = "cron(0 4 ? * MON-FRI *)"
    functions               = { exporter = { reserved_concurrent_executions = 16 } }
  }
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
  override_data {
    target = data.aws_lambda_function.canary
    values = { description = "Afterwrite aggregator, model exambuddy, generation 1" }
  }
  assert {
    condition     = length(aws_lambda_event_source_mapping.stream) == 2
    error_message = "No lookup queries GSI2."
  }
  assert {
    condition     = aws_lambda_alias.live["aggregator"].routing_config[0].additional_version_weights == tomap({ "3" = 0.1 })
    error_message = "A tenth of the invocations goes to version 3."
  }
  assert {
    condition     = length(one([for rule in aws_s3_bucket_lifecycle_configuration.archive[0].rule : rule if rule.id == "archive"]).transition) == 3
    error_message = "S3 takes these days."
  }
}
