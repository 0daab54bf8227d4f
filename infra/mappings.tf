locals {
  # A mapping for each reader and source table; and for the state table, if a projection that the reader hosts uses rollups as sources.
  stream_mappings = merge([
    for reader in local.readers : {
      for table in concat(local.source_tables, local.reads_state[reader] ? [local.state_source] : []) : "${reader}/${table}" => { function = reader, table = table }
    }
  ]...)
  reads_state = {
    for reader in local.readers : reader => contains(keys(try(local.model.filters[local.state_source], {})), local.hosted[reader])
  }
  mapped_stream_arns = merge(local.stream_arns, { for table in local.has_levels ? [local.state_source] : [] : table => local.state_stream_arn })
  # The table, in words.
  mapped_tables = { for key, mapping in local.stream_mappings : key => mapping.table == local.state_source ? "the state table" : mapping.table }

  # Only records that a function uses invoke it: the patterns of the model's description, by the projections that the function hosts.
  hosted = {
    aggregator = join(",", var.single_reader ? local.projections : ["aggregate"])
    relay      = join(",", local.relayed)
  }
  stream_patterns = {
    for key, mapping in local.stream_mappings :
    key => contains(keys(var.stream_filters), mapping.table) ? var.stream_filters[mapping.table] : try(local.model.filters[mapping.table][local.hosted[mapping.function]], [])
  }
}

resource "aws_lambda_event_source_mapping" "stream" {
  for_each = local.stream_mappings

  event_source_arn = local.mapped_stream_arns[each.value.table]
  function_name    = aws_lambda_alias.live[each.value.function].arn
  enabled          = var.stream_mapping.enabled
  # LATEST can lose records while the mapping starts.
  starting_position = "TRIM_HORIZON"

  batch_size                         = var.stream_mapping.batch_size
  maximum_batching_window_in_seconds = var.stream_mapping.maximum_batching_window_in_seconds
  parallelization_factor             = var.stream_mapping.parallelization_factor

  # A failing record is redelivered from its place, alone after some bisections, and ends in the bucket with its images.
  function_response_types        = ["ReportBatchItemFailures"]
  bisect_batch_on_function_error = true
  maximum_retry_attempts         = var.stream_mapping.maximum_retry_attempts
  maximum_record_age_in_seconds  = var.stream_mapping.maximum_record_age_in_seconds

  kms_key_arn = length(local.stream_patterns[each.key]) > 0 ? var.kms_key_arn : null
  tags        = var.tags

  dynamic "filter_criteria" {
    for_each = length(local.stream_patterns[each.key]) > 0 ? [local.stream_patterns[each.key]] : []
    content {
      dynamic "filter" {
        for_each = filter_criteria.value
        content {
          pattern = filter.value
        }
      }
    }
  }

  destination_config {
    on_failure {
      destination_arn = aws_s3_bucket.failures.arn
    }
  }

  metrics_config {
    metrics = ["EventCount"]
  }

  lifecycle {
    precondition {
      condition     = var.stream_mapping.maximum_record_age_in_seconds >= 2 * local.functions[each.value.function].timeout
      error_message = "maximum_record_age_in_seconds is shorter than two runs of ${each.value.function} (${local.functions[each.value.function].timeout} s each): a record would be dropped before its first retry."
    }
    precondition {
      condition     = each.value.table != local.state_source || length(local.stream_patterns[each.key]) > 0
      error_message = "The model's description has no filter patterns for the state table: without them, ${each.value.function} would read its own writes. Write the description again with infra/build; if the patterns are still missing, give the rollups that are sources keys with a common beginning."
    }
  }

  depends_on = [aws_iam_role_policy.function, aws_s3_bucket_policy.failures]
}

resource "aws_lambda_event_source_mapping" "exporter" {
  count = local.enabled.exporter ? 1 : 0

  event_source_arn        = aws_sqs_queue.export[0].arn
  function_name           = aws_lambda_alias.live["exporter"].arn
  batch_size              = 10
  function_response_types = ["ReportBatchItemFailures"]
  tags                    = var.tags

  scaling_config {
    maximum_concurrency = var.exporter_maximum_concurrency
  }

  lifecycle {
    precondition {
      condition     = contains([-1, max(var.exporter_maximum_concurrency, local.functions.exporter.reserved_concurrent_executions)], local.functions.exporter.reserved_concurrent_executions)
      error_message = "exporter reserves ${local.functions.exporter.reserved_concurrent_executions} concurrent executions, fewer than exporter_maximum_concurrency (${var.exporter_maximum_concurrency}): messages that Lambda throttles could reach the dead-letter queue. Reserve as many, or lower exporter_maximum_concurrency."
    }
  }

  metrics_config {
    metrics = ["EventCount"]
  }

  depends_on = [aws_iam_role_policy.function]
}

# The window folds the paths of all shards; one invalidator at a time keeps CloudFront's limits.
resource "aws_lambda_event_source_mapping" "invalidator" {
  count = local.enabled.invalidator ? 1 : 0

  event_source_arn                   = aws_sqs_queue.cdn[0].arn
  function_name                      = aws_lambda_alias.live["invalidator"].arn
  batch_size                         = 1000
  maximum_batching_window_in_seconds = 20
  function_response_types            = ["ReportBatchItemFailures"]
  tags                               = var.tags

  metrics_config {
    metrics = ["EventCount"]
  }

  depends_on = [aws_iam_role_policy.function]
}
