# Each limit of a variable refuses a value beyond it. A run has a value beyond a limit for each variable that has one left: planning costs more
# than what it refuses. tests/infrastructure/cases.py runs this file on a module that has the variables and nothing else.

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

run "beyond_a_limit_of_each_variable_1" {
  command = plan
  variables {
    # A name that is not lower case.
    name = "Exams"
    # An unknown architecture.
    architecture = "riscv64"
    # A batch of no records.
    stream_mapping = { batch_size = 0 }
    # More than five filters.
    stream_filters = { ExamBuddyTable = ["{}", "{}", "{}", "{}", "{}", "{}"] }
    # A negative number of other readers.
    other_stream_readers = -1
    # An unknown way with poison.
    on_poison = "ignore"
    # A stream that is not one.
    tables = { ExamBuddyTable = { stream_arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable" } }
    # A cache address with a password.
    cache_url = "rediss://user:secret@cache:6379"
    # A secret without an arn.
    cache_url_secret_arn = "cache"
    # An unknown storage class.
    archive_transitions = [{ days = 30, storage_class = "ICE" }]
    # A buffer of more than 128 mib.
    firehose_buffering_size = 129
    # A buffer of more than fifteen minutes.
    firehose_buffering_interval = 901
    # One exporter at once.
    exporter_maximum_concurrency = 1
    # A schedule that is not an expression.
    compaction_schedule = "hourly"
    # A heartbeat that is not an expression.
    heartbeat_schedule = "1 minute"
    # A verification that is not an expression.
    verify_schedule = "daily"
    # A sample of more than everything.
    verify_sample = 1.5
    # A scan limit below athenas.
    athena_bytes_scanned_cutoff = 10485759
    # Failed records that are kept for long.
    on_failure_expiration_days = 91
    # An unknown function.
    functions = { aggregate = { memory_size = 256 } }
    # A weight of more than all.
    canary = { aggregator = { version = "1", weight = 1.5 } }
    # An unknown tracing mode.
    tracing_mode = "On"
    # A log level without metrics.
    log_level = "WARN"
    # A retention that cloudwatch does not have.
    cloudwatch_logs_retention_in_days = 10
    # An alias of a key.
    kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:alias/exams"
    # A namespace of aws.
    metrics_namespace = "AWS/Afterwrite"
    # No data file at once.
    bulk_concurrency = 0
    # Rollups in no part.
    bulk_partitions = 0
    # Exports without a prefix.
    bulk_export_prefix = ""
    # A bucket name with capitals.
    bucket_name = "Exams"
    # An expiration of a part of a day.
    archive_expiration_days = 365.5
    # The url of a queue in place of its arn.
    events_arn = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"
    # The url of a target in place of its arn.
    event_target_arns = { billing = "https://sqs.eu-west-1.amazonaws.com/210987654321/billing.fifo" }
  }
  expect_failures = [
    var.name,
    var.architecture,
    var.stream_mapping,
    var.stream_filters,
    var.other_stream_readers,
    var.on_poison,
    var.tables,
    var.cache_url,
    var.cache_url_secret_arn,
    var.archive_transitions,
    var.firehose_buffering_size,
    var.firehose_buffering_interval,
    var.exporter_maximum_concurrency,
    var.compaction_schedule,
    var.heartbeat_schedule,
    var.verify_schedule,
    var.verify_sample,
    var.athena_bytes_scanned_cutoff,
    var.on_failure_expiration_days,
    var.functions,
    var.canary,
    var.tracing_mode,
    var.log_level,
    var.cloudwatch_logs_retention_in_days,
    var.kms_key_arn,
    var.metrics_namespace,
    var.bulk_concurrency,
    var.bulk_partitions,
    var.bulk_export_prefix,
    var.bucket_name,
    var.archive_expiration_days,
    var.events_arn,
    var.event_target_arns,
  ]
}

run "beyond_a_limit_of_each_variable_2" {
  command = plan
  variables {
    # A name that is too long.
    name = "a-name-of-more-than-thirty-characters"
    # A batch of more than ten thousand records.
    stream_mapping = { batch_size = 10001 }
    # A filter that is not json.
    stream_filters = { ExamBuddyTable = ["dynamodb"] }
    # A buffer of no bytes.
    firehose_buffering_size = 0
    # More than a thousand exporters.
    exporter_maximum_concurrency = 1001
    # Too little memory.
    functions = { aggregator = { memory_size = 127 } }
    # A part of another reader.
    other_stream_readers = 0.5
    # A buffer of less than no time.
    firehose_buffering_interval = -1
    # A sample of nothing.
    verify_sample = 0
    # Failed records that are not kept.
    on_failure_expiration_days = 0
    # A weight of nothing.
    canary = { aggregator = { version = "1", weight = 0 } }
    # A namespace with other characters.
    metrics_namespace = "After write"
    # More than ten thousand data files at once.
    bulk_concurrency = 10001
    # Rollups in more than 256 parts.
    bulk_partitions = 257
    # A prefix of exports that ends with a slash.
    bulk_export_prefix = "AWSDynamoDB/"
    # A bucket name with two dots in a row.
    bucket_name = "exams..archive"
    # A transition before an object is written.
    archive_transitions = [{ days = -1, storage_class = "GLACIER_IR" }]
    # A compaction every 1 hours.
    compaction_schedule = "rate(1 hours)"
    # A heartbeat every 1 minutes.
    heartbeat_schedule = "rate(1 minutes)"
    # A verification every 0 days.
    verify_schedule = "rate(0 days)"
  }
  expect_failures = [
    var.name,
    var.stream_mapping,
    var.stream_filters,
    var.firehose_buffering_size,
    var.exporter_maximum_concurrency,
    var.functions,
    var.other_stream_readers,
    var.firehose_buffering_interval,
    var.verify_sample,
    var.on_failure_expiration_days,
    var.canary,
    var.metrics_namespace,
    var.bulk_concurrency,
    var.bulk_partitions,
    var.bulk_export_prefix,
    var.bucket_name,
    var.archive_transitions,
    var.compaction_schedule,
    var.heartbeat_schedule,
    var.verify_schedule,
  ]
}

run "beyond_a_limit_of_each_variable_3" {
  command = plan
  variables {
    # A window of more than five minutes.
    stream_mapping = { maximum_batching_window_in_seconds = 301 }
    # A filter of more than 4096 characters.
    stream_filters = { ExamBuddyTable = [jsonencode({ a = [for number in range(1000) : "value"] })] }
    # Too much memory.
    functions = { aggregator = { memory_size = 10241 } }
    # A name that begins with a digit.
    name = "1exams"
    # A bucket name that begins with a hyphen.
    bucket_name = "-exams"
    # A transition after a part of a day.
    archive_transitions = [{ days = 90.5, storage_class = "GLACIER_IR" }]
    # A compaction every 2 hour.
    compaction_schedule = "rate(2 hour)"
  }
  expect_failures = [
    var.stream_mapping,
    var.stream_filters,
    var.functions,
    var.name,
    var.bucket_name,
    var.archive_transitions,
    var.compaction_schedule,
  ]
}

run "beyond_a_limit_of_each_variable_4" {
  command = plan
  variables {
    # No batch at once.
    stream_mapping = { parallelization_factor = 0 }
    # Too little temporary storage.
    functions = { compactor = { ephemeral_storage_size = 511 } }
    # A name of one letter.
    name = "e"
    # A bucket name that ends with a hyphen.
    bucket_name = "exams-"
    # Infrequent access before 30 days.
    archive_transitions = [{ days = 29, storage_class = "STANDARD_IA" }]
    # A compaction without a year.
    compaction_schedule = "cron(0 * * * *)"
  }
  expect_failures = [
    var.stream_mapping,
    var.functions,
    var.name,
    var.bucket_name,
    var.archive_transitions,
    var.compaction_schedule,
  ]
}

run "beyond_a_limit_of_each_variable_5" {
  command = plan
  variables {
    # More than ten batches at once.
    stream_mapping = { parallelization_factor = 11 }
    # A timeout of more than fifteen minutes.
    functions = { relay = { timeout = 901 } }
    # A bucket name that ends with a dot.
    bucket_name = "exams."
    # Infrequent access in one zone before 30 days.
    archive_transitions = [{ days = 29, storage_class = "ONEZONE_IA" }]
  }
  expect_failures = [
    var.stream_mapping,
    var.functions,
    var.bucket_name,
    var.archive_transitions,
  ]
}

run "beyond_a_limit_of_each_variable_6" {
  command = plan
  variables {
    # Retries without a bound.
    stream_mapping = { maximum_retry_attempts = -1 }
    # A timeout without time to retry.
    functions = { relay = { timeout = 9 } }
    # A bucket name of two characters.
    bucket_name = "ex"
    # Two transitions to one class.
    archive_transitions = [{ days = 30, storage_class = "GLACIER" }, { days = 60, storage_class = "GLACIER" }]
  }
  expect_failures = [
    var.stream_mapping,
    var.functions,
    var.bucket_name,
    var.archive_transitions,
  ]
}

run "beyond_a_limit_of_each_variable_7" {
  command = plan
  variables {
    # More than ten thousand retries.
    stream_mapping = { maximum_retry_attempts = 10001 }
    # Too much temporary storage.
    functions = { compactor = { ephemeral_storage_size = 10241 } }
    # A bucket name of 64 characters.
    bucket_name = "x${join(".", [for number in range(32) : "x"])}"
    # Less than 30 days of infrequent access.
    archive_transitions = [{ days = 30, storage_class = "STANDARD_IA" }, { days = 59, storage_class = "GLACIER_IR" }]
  }
  expect_failures = [
    var.stream_mapping,
    var.functions,
    var.bucket_name,
    var.archive_transitions,
  ]
}

run "beyond_a_limit_of_each_variable_8" {
  command = plan
  variables {
    # Records of any age.
    stream_mapping = { maximum_record_age_in_seconds = -1 }
    # A transition to a warmer class.
    archive_transitions = [{ days = 90, storage_class = "GLACIER" }, { days = 180, storage_class = "GLACIER_IR" }]
  }
  expect_failures = [
    var.stream_mapping,
    var.archive_transitions,
  ]
}

run "beyond_a_limit_of_each_variable_9" {
  command = plan
  variables {
    # Records older than the stream keeps them.
    stream_mapping = { maximum_record_age_in_seconds = 86401 }
    # An expiration of no days.
    archive_transitions     = []
    archive_expiration_days = 0
  }
  expect_failures = [
    var.stream_mapping,
    var.archive_expiration_days,
  ]
}

run "beyond_a_limit_of_each_variable_10" {
  command = plan
  variables {
    # A negative window.
    stream_mapping = { maximum_batching_window_in_seconds = -1 }
  }
  expect_failures = [
    var.stream_mapping,
  ]
}

run "beyond_a_limit_of_each_variable_11" {
  command = plan
  variables {
    # Records that are younger than a minute.
    stream_mapping = { maximum_record_age_in_seconds = 59 }
  }
  expect_failures = [
    var.stream_mapping,
  ]
}
