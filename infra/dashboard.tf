# One dashboard: the state of all alarms, the streams, the functions, and what each function counts.

locals {
  # A panel for each group of the functions' own metrics. An entry is left out if its function is not deployed.
  own_panels = [
    for panel in [
      { title = "Records counted", function = "aggregator", stat = "Sum", when = local.has_aggregate, metrics = ["Records", "Duplicates", "Folded", "Unmatched", "Failed", "Parked", "Skipped", "DroppedContributions"] },
      { title = "Transactions", function = "aggregator", stat = "Sum", when = local.has_aggregate, metrics = ["Transactions", "Conflicts", "Retries", "LedgerWrites", "WriteUnits", "Reconciled"] },
      { title = "Mirrors and models", function = "aggregator", stat = "Sum", when = local.has_aggregate, metrics = ["Mirrors", "UnwritableMirrors", "OtherModels", "ExpiriesTooOld"] },
      { title = "Delay of counting (ms)", function = "aggregator", stat = "Maximum", when = local.has_aggregate, metrics = ["RecordAge", "Duration"] },
      { title = "Caches", function = local.relaying, stat = "Sum", when = local.has_invalidate, metrics = ["RecordsRelayed", "RelayFailed", "KeysInvalidated", "PathsQueued"] },
      { title = "Archive", function = local.relaying, stat = "Sum", when = local.has_archive, metrics = ["LinesArchived", "LinesArchivedBefore", "ArchiveRetries", "DirectObjects"] },
      { title = "Events", function = local.relaying, stat = "Sum", when = local.has_events, metrics = ["Events", "EventsQueued", "EventsFailed", "EventsDetailOmitted"] },
      { title = "CloudFront", function = "invalidator", stat = "Sum", when = local.has_cdn, metrics = ["Messages", "MessagesFailed", "PathsReceived", "PathsInvalidated", "PathsRefused"] },
      { title = "Export", function = "exporter", stat = "Sum", when = local.enabled.exporter, metrics = ["Lines", "Rows", "RejectedLines", "RescuedRows", "UndatedRows", "Files"] },
      { title = "Compaction", function = "compactor", stat = "Sum", when = local.enabled.compactor, metrics = ["Partitions", "RowsRead", "RowsWritten", "PartitionsDerived", "FilesRemoved"] },
      { title = "Verification", function = "verifier", stat = "Sum", when = local.enabled.verifier, metrics = ["CheckedTargets", "DriftedTargets", "UndecidedTargets"] },
      ] : {
      title   = panel.title
      stat    = panel.stat
      metrics = [for metric in panel.metrics : concat([var.metrics_namespace, metric], flatten([for dimension, value in try(local.own_dimensions[panel.function], {}) : [dimension, value]]))]
    } if panel.when
  ]

  service_panels = [
    for panel in [
      { title = "Iterator age (ms)", stat = "Maximum", metrics = [for reader in local.readers : ["AWS/Lambda", "IteratorAge", "FunctionName", "${var.name}-${reader}"]] },
      { title = "Age of the newest heartbeat, by stage (s)", stat = "Maximum", metrics = [for stage in local.has_heartbeat ? ["counted", "archived", "exported", "queryable"] : [] : [var.metrics_namespace, "FreshnessSeconds", "service", var.name, "Model", local.model.name, "stage", stage]] },
      { title = "Errors", stat = "Sum", metrics = [for function in keys(local.deployed) : ["AWS/Lambda", "Errors", "FunctionName", "${var.name}-${function}"]] },
      { title = "Throttles", stat = "Sum", metrics = [for function in keys(local.deployed) : ["AWS/Lambda", "Throttles", "FunctionName", "${var.name}-${function}"]] },
      { title = "Longest run (ms)", stat = "Maximum", metrics = [for function in keys(local.deployed) : ["AWS/Lambda", "Duration", "FunctionName", "${var.name}-${function}"]] },
      {
        title = "Failed and dropped records"
        stat  = "Sum"
        metrics = concat(
          [for key, mapping in aws_lambda_event_source_mapping.stream : ["AWS/Lambda", "OnFailureDestinationDeliveredEventCount", "EventSourceMappingUUID", mapping.uuid, { label = "${key} failed" }]],
          [for key, mapping in aws_lambda_event_source_mapping.stream : ["AWS/Lambda", "DroppedEventCount", "EventSourceMappingUUID", mapping.uuid, { label = "${key} dropped" }]],
        )
      },
      { title = "Age of the oldest message (s)", stat = "Maximum", metrics = [for queue in compact([one(aws_sqs_queue.export[*].name), one(aws_sqs_queue.cdn[*].name)]) : ["AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", queue]] },
      { title = "Dead letters", stat = "Maximum", metrics = [for name in local.dead_letters : ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "${var.name}-${name}-dead-letters"]] },
    ] : panel if length(panel.metrics) > 0
  ]

  panels = concat(local.service_panels, local.own_panels)
}

resource "aws_cloudwatch_dashboard" "deployment" {
  count = local.is_minimal ? 0 : 1

  dashboard_name = var.name

  dashboard_body = jsonencode({
    widgets = concat(
      [for arns in [[for alarm in aws_cloudwatch_metric_alarm.alarm : alarm.arn]] : {
        type       = "alarm"
        x          = 0
        y          = 0
        width      = 24
        height     = 4
        properties = { title = "Alarms of ${var.name}, model ${local.model.name}, generation ${local.model.generation}", alarms = arns }
      } if length(arns) > 0],
      [for index, panel in local.panels : {
        type   = "metric"
        x      = 8 * (index % 3)
        y      = 4 + 6 * floor(index / 3)
        width  = 8
        height = 6
        properties = {
          title   = panel.title
          region  = local.region
          period  = 300
          stat    = panel.stat
          metrics = panel.metrics
        }
      }],
    )
  })
}
