# Queries of the functions' logs, saved in CloudWatch Logs Insights. docs/RUNBOOK.md names them.

locals {
  log_queries = {
    # A failed invocation has the errorType of Lambda's own line.
    errors = "fields @timestamp, @log, level, errorType, @message | filter level in [\"ERROR\", \"WARN\"] or ispresent(errorType) | sort @timestamp desc | limit 200"
    runs   = "filter type = \"platform.report\" | stats count() as runs, max(record.metrics.durationMs) as longest_ms, max(record.metrics.maxMemoryUsedMB) as memory_mb by @log, bin(5m)"
  }
}

resource "aws_cloudwatch_query_definition" "saved" {
  for_each = local.log_queries

  name            = "${var.name}/${each.key}"
  log_group_names = [for function in keys(local.deployed) : aws_cloudwatch_log_group.function[function].name]
  query_string    = each.value
}
