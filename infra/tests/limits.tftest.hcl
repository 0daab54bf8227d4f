# Each limit of a variable refuses a value beyond it.

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
}

run "a_name_that_is_not_lower_case" {
  command = plan
  variables {
    name = "Exams"
  }
  expect_failures = [var.name]
}

run "a_name_that_is_too_long" {
  command = plan
  variables {
    name = "a-name-of-more-than-thirty-characters"
  }
  expect_failures = [var.name]
}

run "an_unknown_architecture" {
  command = plan
  variables {
    architecture = "riscv64"
  }
  expect_failures = [var.architecture]
}

run "a_batch_of_no_records" {
  command = plan
  variables {
    stream_mapping = { batch_size = 0 }
  }
  expect_failures = [var.stream_mapping]
}

run "a_batch_of_more_than_ten_thousand_records" {
  command = plan
  variables {
    stream_mapping = { batch_size = 10001 }
  }
  expect_failures = [var.stream_mapping]
}

run "a_window_of_more_than_five_minutes" {
  command = plan
  variables {
    stream_mapping = { maximum_batching_window_in_seconds = 301 }
  }
  expect_failures = [var.stream_mapping]
}

run "no_batch_at_once" {
  command = plan
  variables {
    stream_mapping = { parallelization_factor = 0 }
  }
  expect_failures = [var.stream_mapping]
}

run "more_than_ten_batches_at_once" {
  command = plan
  variables {
    stream_mapping = { parallelization_factor = 11 }
  }
  expect_failures = [var.stream_mapping]
}

run "retries_without_a_bound" {
  command = plan
  variables {
    stream_mapping = { maximum_retry_attempts = -1 }
  }
  expect_failures = [var.stream_mapping]
}

run "more_than_ten_thousand_retries" {
  command = plan
  variables {
    stream_mapping = { maximum_retry_attempts = 10001 }
  }
  expect_failures = [var.stream_mapping]
}

run "records_of_any_age" {
  command = plan
  variables {
    stream_mapping = { maximum_record_age_in_seconds = -1 }
  }
  expect_failures = [var.stream_mapping]
}

run "records_older_than_the_stream_keeps_them" {
  command = plan
  variables {
    stream_mapping = { maximum_record_age_in_seconds = 86401 }
  }
  expect_failures = [var.stream_mapping]
}

run "more_than_five_filters" {
  command = plan
  variables {
    stream_filters = { ExamBuddyTable = ["{}", "{}", "{}", "{}", "{}", "{}"] }
  }
  expect_failures = [var.stream_filters]
}

run "a_filter_that_is_not_json" {
  command = plan
  variables {
    stream_filters = { ExamBuddyTable = ["dynamodb"] }
  }
  expect_failures = [var.stream_filters]
}

run "a_filter_of_more_than_4096_characters" {
  command = plan
  variables {
    stream_filters = { ExamBuddyTable = [jsonencode({ a = [for number in range(1000) : "value"] })] }
  }
  expect_failures = [var.stream_filters]
}

run "a_negative_number_of_other_readers" {
  command = plan
  variables {
    other_stream_readers = -1
  }
  expect_failures = [var.other_stream_readers]
}

run "an_unknown_way_with_poison" {
  command = plan
  variables {
    on_poison = "ignore"
  }
  expect_failures = [var.on_poison]
}

run "a_stream_that_is_not_one" {
  command = plan
  variables {
    tables = { ExamBuddyTable = { stream_arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable" } }
  }
  expect_failures = [var.tables]
}

run "a_cache_address_with_a_password" {
  command = plan
  variables {
    cache_url = "rediss://user:secret@cache:6379"
  }
  expect_failures = [var.cache_url]
}

run "a_secret_without_an_arn" {
  command = plan
  variables {
    cache_url_secret_arn = "cache"
  }
  expect_failures = [var.cache_url_secret_arn]
}

run "an_unknown_storage_class" {
  command = plan
  variables {
    archive_transitions = [{ days = 30, storage_class = "ICE" }]
  }
  expect_failures = [var.archive_transitions]
}

run "a_buffer_of_more_than_128_mib" {
  command = plan
  variables {
    firehose_buffering_size = 129
  }
  expect_failures = [var.firehose_buffering_size]
}

run "a_buffer_of_no_bytes" {
  command = plan
  variables {
    firehose_buffering_size = 0
  }
  expect_failures = [var.firehose_buffering_size]
}

run "a_buffer_of_more_than_fifteen_minutes" {
  command = plan
  variables {
    firehose_buffering_interval = 901
  }
  expect_failures = [var.firehose_buffering_interval]
}

run "one_exporter_at_once" {
  command = plan
  variables {
    exporter_maximum_concurrency = 1
  }
  expect_failures = [var.exporter_maximum_concurrency]
}

run "more_than_a_thousand_exporters" {
  command = plan
  variables {
    exporter_maximum_concurrency = 1001
  }
  expect_failures = [var.exporter_maximum_concurrency]
}

run "a_schedule_that_is_not_an_expression" {
  command = plan
  variables {
    compaction_schedule = "hourly"
  }
  expect_failures = [var.compaction_schedule]
}

run "a_heartbeat_that_is_not_an_expression" {
  command = plan
  variables {
    heartbeat_schedule = "1 minute"
  }
  expect_failures = [var.heartbeat_schedule]
}

run "a_verification_that_is_not_an_expression" {
  command = plan
  variables {
    verify_schedule = "daily"
  }
  expect_failures = [var.verify_schedule]
}

run "a_sample_of_more_than_everything" {
  command = plan
  variables {
    verify_sample = 1.5
  }
  expect_failures = [var.verify_sample]
}

run "a_scan_limit_below_athenas" {
  command = plan
  variables {
    athena_bytes_scanned_cutoff = 10485759
  }
  expect_failures = [var.athena_bytes_scanned_cutoff]
}

run "failed_records_that_are_kept_for_long" {
  command = plan
  variables {
    on_failure_expiration_days = 91
  }
  expect_failures = [var.on_failure_expiration_days]
}

run "an_unknown_function" {
  command = plan
  variables {
    functions = { aggregate = { memory_size = 256 } }
  }
  expect_failures = [var.functions]
}

run "too_little_memory" {
  command = plan
  variables {
    functions = { aggregator = { memory_size = 127 } }
  }
  expect_failures = [var.functions]
}

run "too_much_memory" {
  command = plan
  variables {
    functions = { aggregator = { memory_size = 10241 } }
  }
  expect_failures = [var.functions]
}

run "too_little_temporary_storage" {
  command = plan
  variables {
    functions = { compactor = { ephemeral_storage_size = 511 } }
  }
  expect_failures = [var.functions]
}

run "a_timeout_of_more_than_fifteen_minutes" {
  command = plan
  variables {
    functions = { relay = { timeout = 901 } }
  }
  expect_failures = [var.functions]
}

run "a_timeout_without_time_to_retry" {
  command = plan
  variables {
    functions = { relay = { timeout = 9 } }
  }
  expect_failures = [var.functions]
}

run "a_weight_of_more_than_all" {
  command = plan
  variables {
    canary = { aggregator = { version = "1", weight = 1.5 } }
  }
  expect_failures = [var.canary]
}

run "an_unknown_tracing_mode" {
  command = plan
  variables {
    tracing_mode = "On"
  }
  expect_failures = [var.tracing_mode]
}

run "a_log_level_without_metrics" {
  command = plan
  variables {
    log_level = "WARN"
  }
  expect_failures = [var.log_level]
}

run "a_retention_that_cloudwatch_does_not_have" {
  command = plan
  variables {
    cloudwatch_logs_retention_in_days = 10
  }
  expect_failures = [var.cloudwatch_logs_retention_in_days]
}

run "an_alias_of_a_key" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:alias/exams"
  }
  expect_failures = [var.kms_key_arn]
}

run "a_namespace_of_aws" {
  command = plan
  variables {
    metrics_namespace = "AWS/Afterwrite"
  }
  expect_failures = [var.metrics_namespace]
}

run "a_name_that_begins_with_a_digit" {
  command = plan
  variables {
    name = "1exams"
  }
  expect_failures = [var.name]
}

run "a_name_of_one_letter" {
  command = plan
  variables {
    name = "e"
  }
  expect_failures = [var.name]
}

run "a_negative_window" {
  command = plan
  variables {
    stream_mapping = { maximum_batching_window_in_seconds = -1 }
  }
  expect_failures = [var.stream_mapping]
}

run "records_that_are_younger_than_a_minute" {
  command = plan
  variables {
    stream_mapping = { maximum_record_age_in_seconds = 59 }
  }
  expect_failures = [var.stream_mapping]
}

run "a_part_of_another_reader" {
  command = plan
  variables {
    other_stream_readers = 0.5
  }
  expect_failures = [var.other_stream_readers]
}

run "a_buffer_of_less_than_no_time" {
  command = plan
  variables {
    firehose_buffering_interval = -1
  }
  expect_failures = [var.firehose_buffering_interval]
}

run "a_sample_of_nothing" {
  command = plan
  variables {
    verify_sample = 0
  }
  expect_failures = [var.verify_sample]
}

run "failed_records_that_are_not_kept" {
  command = plan
  variables {
    on_failure_expiration_days = 0
  }
  expect_failures = [var.on_failure_expiration_days]
}

run "too_much_temporary_storage" {
  command = plan
  variables {
    functions = { compactor = { ephemeral_storage_size = 10241 } }
  }
  expect_failures = [var.functions]
}

run "a_weight_of_nothing" {
  command = plan
  variables {
    canary = { aggregator = { version = "1", weight = 0 } }
  }
  expect_failures = [var.canary]
}

run "a_namespace_with_other_characters" {
  command = plan
  variables {
    metrics_namespace = "After write"
  }
  expect_failures = [var.metrics_namespace]
}

run "no_data_file_at_once" {
  command = plan
  variables {
    bulk_concurrency = 0
  }
  expect_failures = [var.bulk_concurrency]
}

run "more_than_ten_thousand_data_files_at_once" {
  command = plan
  variables {
    bulk_concurrency = 10001
  }
  expect_failures = [var.bulk_concurrency]
}

run "rollups_in_no_part" {
  command = plan
  variables {
    bulk_partitions = 0
  }
  expect_failures = [var.bulk_partitions]
}

run "rollups_in_more_than_256_parts" {
  command = plan
  variables {
    bulk_partitions = 257
  }
  expect_failures = [var.bulk_partitions]
}

run "exports_without_a_prefix" {
  command = plan
  variables {
    bulk_export_prefix = ""
  }
  expect_failures = [var.bulk_export_prefix]
}

run "a_prefix_of_exports_that_ends_with_a_slash" {
  command = plan
  variables {
    bulk_export_prefix = "AWSDynamoDB/"
  }
  expect_failures = [var.bulk_export_prefix]
}

run "a_bucket_name_with_capitals" {
  command = plan
  variables {
    bucket_name = "Exams"
  }
  expect_failures = [var.bucket_name]
}

run "a_bucket_name_with_two_dots_in_a_row" {
  command = plan
  variables {
    bucket_name = "exams..archive"
  }
  expect_failures = [var.bucket_name]
}

run "a_bucket_name_that_begins_with_a_hyphen" {
  command = plan
  variables {
    bucket_name = "-exams"
  }
  expect_failures = [var.bucket_name]
}

run "a_bucket_name_that_ends_with_a_hyphen" {
  command = plan
  variables {
    bucket_name = "exams-"
  }
  expect_failures = [var.bucket_name]
}

run "a_bucket_name_that_ends_with_a_dot" {
  command = plan
  variables {
    bucket_name = "exams."
  }
  expect_failures = [var.bucket_name]
}

run "a_bucket_name_of_two_characters" {
  command = plan
  variables {
    bucket_name = "ex"
  }
  expect_failures = [var.bucket_name]
}

run "a_bucket_name_of_64_characters" {
  command = plan
  variables {
    bucket_name = join("", [for number in range(64) : "x"])
  }
  expect_failures = [var.bucket_name]
}

run "a_transition_before_an_object_is_written" {
  command = plan
  variables {
    archive_transitions = [{ days = -1, storage_class = "GLACIER_IR" }]
  }
  expect_failures = [var.archive_transitions]
}

run "a_transition_after_a_part_of_a_day" {
  command = plan
  variables {
    archive_transitions = [{ days = 90.5, storage_class = "GLACIER_IR" }]
  }
  expect_failures = [var.archive_transitions]
}

run "infrequent_access_before_30_days" {
  command = plan
  variables {
    archive_transitions = [{ days = 29, storage_class = "STANDARD_IA" }]
  }
  expect_failures = [var.archive_transitions]
}

run "infrequent_access_in_one_zone_before_30_days" {
  command = plan
  variables {
    archive_transitions = [{ days = 29, storage_class = "ONEZONE_IA" }]
  }
  expect_failures = [var.archive_transitions]
}

run "two_transitions_to_one_class" {
  command = plan
  variables {
    archive_transitions = [{ days = 30, storage_class = "GLACIER" }, { days = 60, storage_class = "GLACIER" }]
  }
  expect_failures = [var.archive_transitions]
}

run "less_than_30_days_of_infrequent_access" {
  command = plan
  variables {
    archive_transitions = [{ days = 30, storage_class = "STANDARD_IA" }, { days = 59, storage_class = "GLACIER_IR" }]
  }
  expect_failures = [var.archive_transitions]
}

run "a_transition_to_a_warmer_class" {
  command = plan
  variables {
    archive_transitions = [{ days = 90, storage_class = "GLACIER" }, { days = 180, storage_class = "GLACIER_IR" }]
  }
  expect_failures = [var.archive_transitions]
}

run "an_expiration_of_no_days" {
  command = plan
  variables {
    archive_transitions     = []
    archive_expiration_days = 0
  }
  expect_failures = [var.archive_expiration_days]
}

run "an_expiration_of_a_part_of_a_day" {
  command = plan
  variables {
    archive_expiration_days = 365.5
  }
  expect_failures = [var.archive_expiration_days]
}

run "an_expiration_before_a_transition" {
  command = plan
  variables {
    archive_expiration_days = 90
  }
  expect_failures = [aws_s3_bucket_lifecycle_configuration.archive]
}

run "a_compaction_every_1_hours" {
  command = plan
  variables {
    compaction_schedule = "rate(1 hours)"
  }
  expect_failures = [var.compaction_schedule]
}

run "a_compaction_every_2_hour" {
  command = plan
  variables {
    compaction_schedule = "rate(2 hour)"
  }
  expect_failures = [var.compaction_schedule]
}

run "a_compaction_without_a_year" {
  command = plan
  variables {
    compaction_schedule = "cron(0 * * * *)"
  }
  expect_failures = [var.compaction_schedule]
}

run "a_heartbeat_every_1_minutes" {
  command = plan
  variables {
    heartbeat_schedule = "rate(1 minutes)"
  }
  expect_failures = [var.heartbeat_schedule]
}

run "a_verification_every_0_days" {
  command = plan
  variables {
    verify_schedule = "rate(0 days)"
  }
  expect_failures = [var.verify_schedule]
}

run "a_threshold_that_a_healthy_deployment_reaches" {
  command = plan
  variables {
    heartbeat_schedule = "rate(6 hours)"
  }
  expect_failures = [aws_cloudwatch_metric_alarm.alarm]
}

run "fewer_reserved_exporters_than_run_at_once" {
  command = plan
  variables {
    functions = { exporter = { reserved_concurrent_executions = 15 } }
  }
  expect_failures = [aws_lambda_event_source_mapping.exporter]
}

run "the_earliest_transitions_and_expiration" {
  command = plan
  variables {
    bucket_name             = "exams.archive"
    archive_transitions     = [{ days = 60, storage_class = "GLACIER_IR" }, { days = 30, storage_class = "STANDARD_IA" }, { days = 61, storage_class = "DEEP_ARCHIVE" }]
    archive_expiration_days = 62
    verify_schedule         = "cron(0 4 ? * MON-FRI *)"
    functions               = { exporter = { reserved_concurrent_executions = 16 } }
  }
  assert {
    condition     = length(one([for rule in aws_s3_bucket_lifecycle_configuration.archive[0].rule : rule if rule.id == "archive"]).transition) == 3
    error_message = "S3 takes these days."
  }
}
