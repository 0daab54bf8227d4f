# Alarms. Each kind has a paragraph of its own in docs/RUNBOOK.md, under its name.

locals {
  # A metric of the functions has these dimensions.
  own_dimensions = { for function in keys(local.deployed) : function => { service = var.name, Function = function, Model = local.model.name } }

  # Defaults of an alarm: any occurrence within five minutes. Missing data is fine: functions that have
  # nothing to do report nothing.
  alarm_defaults = {
    namespace           = var.metrics_namespace
    statistic           = "Sum"
    threshold           = 0
    period              = 300
    evaluation_periods  = 1
    datapoints_to_alarm = 1
    treat_missing_data  = "notBreaching"
    share_of            = ""
    # The value that a healthy deployment can reach; the threshold must be above it.
    healthy_value = -1
  }

  reader_alarms = merge([for reader in local.readers : {
    "iterator-age-${reader}" = {
      kind               = "iterator-age"
      summary            = "${reader} is behind its stream"
      namespace          = "AWS/Lambda"
      metric_name        = "IteratorAge"
      dimensions         = { FunctionName = "${var.name}-${reader}" }
      statistic          = "Maximum"
      threshold          = 1000 * var.alarm_thresholds.iterator_age_seconds
      period             = 60
      evaluation_periods = 5, datapoints_to_alarm = 5
    }
    "delivery-failures-${reader}" = {
      kind        = "delivery-failures"
      summary     = "Failed records of ${reader} could not be written to the on-failure bucket, and are lost"
      namespace   = "AWS/Lambda"
      metric_name = "DestinationDeliveryFailures"
      dimensions  = { FunctionName = "${var.name}-${reader}" }
    }
  }]...)

  mapping_alarms = merge([for key, mapping in local.stream_mappings : {
    "on-failure-${mapping.function}-${mapping.table}" = {
      kind        = "on-failure"
      summary     = "Records of ${local.mapped_tables[key]} were given up by ${mapping.function} and are in the on-failure bucket"
      namespace   = "AWS/Lambda"
      metric_name = "OnFailureDestinationDeliveredEventCount"
      dimensions  = { EventSourceMappingUUID = aws_lambda_event_source_mapping.stream[key].uuid }
    }
    "dropped-${mapping.function}-${mapping.table}" = {
      kind        = "dropped"
      summary     = "Records of ${local.mapped_tables[key]} were dropped by the event source mapping of ${mapping.function}"
      namespace   = "AWS/Lambda"
      metric_name = "DroppedEventCount"
      dimensions  = { EventSourceMappingUUID = aws_lambda_event_source_mapping.stream[key].uuid }
    }
  }]...)

  # A run of the compactor or the verifier is rare and long; other functions may fail now and then, and are invoked again.
  rare_functions = ["compactor", "verifier"]
  function_alarms = merge([for function, settings in local.deployed : {
    "errors-${function}" = {
      kind               = "errors"
      summary            = "Invocations of ${function} fail"
      namespace          = "AWS/Lambda"
      metric_name        = "Errors"
      dimensions         = { FunctionName = "${var.name}-${function}" }
      evaluation_periods = contains(local.rare_functions, function) ? 1 : 3, datapoints_to_alarm = contains(local.rare_functions, function) ? 1 : 2
    }
  }]...)

  # The verifier uses the time that it has.
  duration_alarms = { for function, settings in local.deployed : "duration-${function}" => {
    kind               = "duration"
    summary            = "${function} runs for nearly as long as it may"
    namespace          = "AWS/Lambda"
    metric_name        = "Duration"
    dimensions         = { FunctionName = "${var.name}-${function}" }
    statistic          = "Maximum"
    threshold          = 10 * var.alarm_thresholds.duration_percent * settings.timeout
    evaluation_periods = function == "compactor" ? 1 : 3, datapoints_to_alarm = function == "compactor" ? 1 : 2
  } if function != "verifier" }

  # The pollers of the CDN queue always find the one invalidator busy: its backlog counts, not its throttles.
  throttle_alarms = { for function in keys(local.deployed) : "throttles-${function}" => {
    kind               = "throttles"
    summary            = "Invocations of ${function} are throttled"
    namespace          = "AWS/Lambda"
    metric_name        = "Throttles"
    dimensions         = { FunctionName = "${var.name}-${function}" }
    evaluation_periods = 3, datapoints_to_alarm = 3
  } if function != "invalidator" }

  counting_alarms = {
    unmatched = {
      kind               = "unmatched"
      summary            = "Many records match no entity of the model"
      metric_name        = "Unmatched"
      share_of           = "Records"
      threshold          = var.alarm_thresholds.unmatched_percent
      period             = 900
      evaluation_periods = 2, datapoints_to_alarm = 2
    }
    parked = {
      kind        = "parked"
      summary     = "Items are parked: their newest records cannot be counted"
      metric_name = "Parked"
    }
    failed-records = {
      kind               = "failed-records"
      summary            = "Records could not be counted for a quarter of an hour, and are redelivered"
      metric_name        = "Failed"
      evaluation_periods = 3, datapoints_to_alarm = 3
    }
    conflicts = {
      kind               = "conflicts"
      summary            = "Transactions conflict with each other"
      metric_name        = "Conflicts"
      share_of           = "Transactions"
      threshold          = var.alarm_thresholds.conflict_percent
      evaluation_periods = 3, datapoints_to_alarm = 3
    }
    unwritable-mirrors = {
      kind        = "unwritable-mirrors"
      summary     = "Counts cannot be shown on the application's items"
      metric_name = "UnwritableMirrors"
    }
    other-models = {
      kind        = "other-models"
      summary     = "Ledger entries were written by another model of the same generation"
      metric_name = "OtherModels"
    }
    expiries-too-old = {
      kind        = "expiries-too-old"
      summary     = "Expiries of more than 35 days ago were not applied"
      metric_name = "ExpiriesTooOld"
    }
  }

  # Only of models with sources that expire.
  dropping_alarms = {
    dropped-contributions = {
      kind        = "dropped-contributions"
      summary     = "Contributions to rollups that are sources and had expired were dropped: the levels above lack them"
      metric_name = "DroppedContributions"
    }
  }

  relaying_alarms = {
    relay-failed = {
      kind               = "relay-failed"
      summary            = "Cache keys, archive lines or events could not be sent for a quarter of an hour"
      metric_name        = "RelayFailed"
      evaluation_periods = 3, datapoints_to_alarm = 3
    }
  }

  notifying_alarms = {
    events-failed = {
      kind               = "events-failed"
      summary            = "Events could not be published for a quarter of an hour"
      metric_name        = "EventsFailed"
      evaluation_periods = 3, datapoints_to_alarm = 3
    }
  }

  invalidating_alarms = {
    paths-refused = {
      kind        = "paths-refused"
      summary     = "CloudFront refuses paths, which stay stale"
      metric_name = "PathsRefused"
    }
    cdn-backlog = {
      kind               = "cdn-backlog"
      summary            = "Stale paths or events wait in the queue"
      namespace          = "AWS/SQS"
      metric_name        = "ApproximateAgeOfOldestMessage"
      dimensions         = { QueueName = one(aws_sqs_queue.cdn[*].name) }
      statistic          = "Maximum"
      threshold          = var.alarm_thresholds.cdn_backlog_seconds
      evaluation_periods = 2, datapoints_to_alarm = 2
    }
  }

  exporting_alarms = {
    rejected-lines = {
      kind        = "rejected-lines"
      summary     = "Archived lines cannot be exported"
      metric_name = "RejectedLines"
    }
    exporter-backlog = {
      kind               = "exporter-backlog"
      summary            = "Archived objects wait for the exporter"
      namespace          = "AWS/SQS"
      metric_name        = "ApproximateAgeOfOldestMessage"
      dimensions         = { QueueName = one(aws_sqs_queue.export[*].name) }
      statistic          = "Maximum"
      threshold          = var.alarm_thresholds.exporter_backlog_seconds
      evaluation_periods = 2, datapoints_to_alarm = 2
    }
  }

  verifying_alarms = {
    drift = {
      kind        = "drift"
      summary     = "What is derived differs from the items"
      metric_name = "DriftedTargets"
    }
  }

  archiving_alarms = {
    archive-delivery = {
      kind               = "archive-delivery"
      summary            = "The delivery stream does not deliver to the bucket"
      namespace          = "AWS/Firehose"
      metric_name        = "DeliveryToS3.DataFreshness"
      dimensions         = { DeliveryStreamName = local.firehose_name }
      statistic          = "Maximum"
      threshold          = 2 * var.firehose_buffering_interval + 300
      evaluation_periods = 2, datapoints_to_alarm = 2
    }
  }

  # Seconds between two runs of a schedule. `null`: no schedule, or a cron expression, whose runs have no fixed distance.
  schedule_seconds = { for name in ["compaction", "heartbeat"] : name => try(
    tonumber(regex("^rate\\((\\d+) ", local.schedules[name].expression)[0]) * { minute = 60, hour = 3600, day = 86400 }[regex("^rate\\(\\d+ (minute|hour|day)", local.schedules[name].expression)[0]],
    null
  ) }

  # The stages of the heartbeat. `interval`: seconds between two values of a healthy stage, `null` if unknown. `age`: the greatest value
  # of a healthy stage: the time that batches and the delivery stream collect, and for `queryable` the time between two heartbeats.
  batching_seconds = var.stream_mapping.maximum_batching_window_in_seconds
  archiving_age    = local.batching_seconds + var.firehose_buffering_interval
  freshness_stages = {
    counted = {
      when     = local.has_heartbeat, threshold = var.alarm_thresholds.counted_freshness_seconds, period = 300, periods = 2
      interval = local.schedule_seconds.heartbeat, age = local.batching_seconds
    }
    archived = {
      when     = local.has_heartbeat && local.has_archive, threshold = var.alarm_thresholds.archived_freshness_seconds, period = 300, periods = 2
      interval = local.schedule_seconds.heartbeat, age = local.batching_seconds
    }
    exported = {
      when     = local.has_heartbeat && local.enabled.exporter, threshold = var.alarm_thresholds.exported_freshness_seconds, period = 900, periods = 3
      interval = try(max(local.schedule_seconds.heartbeat, var.firehose_buffering_interval), null), age = local.archiving_age
    }
    queryable = {
      when     = local.has_heartbeat && local.enabled.compactor, threshold = var.alarm_thresholds.queryable_freshness_seconds, period = 3600, periods = 3
      interval = local.schedule_seconds.compaction, age = local.archiving_age + coalesce(local.schedule_seconds.heartbeat, 0)
    }
  }
  # Each period has a value of a healthy stage: periods are at least as long as the interval, up to CloudWatch's day. A longer interval has
  # more periods, up to CloudWatch's seven days.
  freshness_periods = { for stage, settings in local.freshness_stages : stage => {
    seconds  = min(86400, max(settings.period, 60 * ceil(coalesce(settings.interval, 0) / 60)))
    count    = max(settings.periods, 1 + ceil(coalesce(settings.interval, 0) / 86400))
    is_known = settings.interval == null ? false : settings.interval <= 6 * 86400
  } }

  # A stage that reports nothing is dead: missing data is breaching. If it is unknown when the next value is due, values alone are judged.
  freshness_alarms = { for stage, settings in local.freshness_stages : "freshness-${stage}" => {
    kind                = "freshness"
    summary             = "The newest heartbeat that is ${stage} is old, or there is none"
    metric_name         = "FreshnessSeconds"
    dimensions          = { service = var.name, Model = local.model.name, stage = stage }
    statistic           = "Maximum"
    threshold           = settings.threshold
    healthy_value       = settings.age
    period              = local.freshness_periods[stage].seconds
    evaluation_periods  = local.freshness_periods[stage].is_known ? local.freshness_periods[stage].count : 1
    datapoints_to_alarm = local.freshness_periods[stage].is_known ? local.freshness_periods[stage].count : 1
    treat_missing_data  = local.freshness_periods[stage].is_known ? "breaching" : "notBreaching"
  } if settings.when }

  dead_letter_alarms = { for name in local.dead_letters : "dead-letters-${name}" => {
    kind        = "dead-letters"
    summary     = "Messages of ${name} were given up"
    namespace   = "AWS/SQS"
    metric_name = "ApproximateNumberOfMessagesVisible"
    dimensions  = { QueueName = "${var.name}-${name}-dead-letters" }
    statistic   = "Maximum"
  } }

  declared_alarms = merge(
    local.reader_alarms,
    local.mapping_alarms,
    local.function_alarms,
    local.duration_alarms,
    local.throttle_alarms,
    local.freshness_alarms,
    local.dead_letter_alarms,
    { for name, alarm in local.counting_alarms : name => merge({ dimensions = try(local.own_dimensions.aggregator, {}) }, alarm) if local.has_aggregate },
    { for name, alarm in local.dropping_alarms : name => merge({ dimensions = try(local.own_dimensions.aggregator, {}) }, alarm) if local.has_aggregate && local.has_expiring_sources },
    { for name, alarm in local.relaying_alarms : name => merge({ dimensions = local.own_dimensions[local.relaying] }, alarm) if contains(local.readers, local.relaying) && length(local.relayed) > 0 },
    { for name, alarm in local.notifying_alarms : name => merge({ dimensions = local.own_dimensions[local.relaying] }, alarm) if contains(local.readers, local.relaying) && local.has_events },
    { for name, alarm in local.invalidating_alarms : name => merge({ dimensions = try(local.own_dimensions.invalidator, {}) }, alarm) if local.enabled.invalidator },
    { for name, alarm in local.exporting_alarms : name => merge({ dimensions = try(local.own_dimensions.exporter, {}) }, alarm) if local.enabled.exporter },
    { for name, alarm in local.verifying_alarms : name => merge({ dimensions = try(local.own_dimensions.verifier, {}) }, alarm) if local.enabled.verifier },
    { for name, alarm in local.archiving_alarms : name => alarm if local.has_archive },
  )
  # The alarms of `minimal`: every way of losing data. Records that expire unread in the stream (also because a mapping is disabled: then no heartbeat
  # is counted or archived), that are given up, dropped or parked, contributions and expiries that are not applied, lines that are not exported, messages that are given
  # up; and what the verifier finds.
  essential_kinds = [
    "iterator-age", "delivery-failures", "on-failure", "dropped", "parked", "expiries-too-old", "dropped-contributions", "rejected-lines", "archive-delivery",
    "dead-letters", "drift",
  ]
  essential_names = ["errors-verifier", "freshness-counted", "freshness-archived"]

  alarms = {
    for name, alarm in local.declared_alarms : name => merge(local.alarm_defaults, alarm)
    if !local.is_minimal || contains(local.essential_kinds, alarm.kind) || contains(local.essential_names, name)
  }
}

resource "aws_cloudwatch_metric_alarm" "alarm" {
  for_each = var.create_alarms ? local.alarms : {}

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "${each.value.summary}. See docs/RUNBOOK.md#${each.value.kind}"
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  evaluation_periods  = each.value.evaluation_periods
  datapoints_to_alarm = each.value.datapoints_to_alarm
  treat_missing_data  = each.value.treat_missing_data
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = var.tags

  lifecycle {
    precondition {
      condition     = each.value.threshold > each.value.healthy_value
      error_message = "The threshold of the alarm ${each.key} (${each.value.threshold} s) must be above the age that a healthy deployment reaches (${each.value.healthy_value} s): maximum_batching_window_in_seconds of stream_mapping, firehose_buffering_interval from the stage exported on, and the time between two heartbeats for queryable. Raise it in alarm_thresholds, or shorten these times."
    }
  }

  namespace   = each.value.share_of == "" ? each.value.namespace : null
  metric_name = each.value.share_of == "" ? each.value.metric_name : null
  dimensions  = each.value.share_of == "" ? each.value.dimensions : null
  statistic   = each.value.share_of == "" ? each.value.statistic : null
  period      = each.value.share_of == "" ? each.value.period : null

  # A percentage: of what `share_of` counts. If nothing is counted, as when every transaction conflicts, one is too many.
  dynamic "metric_query" {
    for_each = each.value.share_of == "" ? [] : ["part", "whole"]
    content {
      id = metric_query.value
      metric {
        namespace   = each.value.namespace
        metric_name = metric_query.value == "part" ? each.value.metric_name : each.value.share_of
        dimensions  = each.value.dimensions
        stat        = each.value.statistic
        period      = each.value.period
      }
    }
  }

  dynamic "metric_query" {
    for_each = each.value.share_of == "" ? [] : ["share"]
    content {
      id          = "share"
      label       = "${each.value.metric_name} in % of ${each.value.share_of}"
      expression  = "IF(whole > 0, 100 * part / whole, 100 * part)"
      return_data = true
    }
  }
}
