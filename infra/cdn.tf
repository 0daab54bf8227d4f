# The queue of stale paths, and of events whose target is busy; and the dead-letter queues of all queues and schedules.

locals {
  cdn_queue_arn = "arn:${local.partition}:sqs:${local.region}:${local.account}:${var.name}-cdn"
  dead_letters = toset(compact([
    local.has_drain ? "cdn" : "",
    local.enabled.exporter ? "export" : "",
    length(local.schedules) > 0 ? "schedules" : "",
  ]))
}

resource "aws_sqs_queue" "cdn" {
  count = local.has_drain ? 1 : 0

  name = "${var.name}-cdn"
  # More than the function's timeout: a message that the function returned reappears after it.
  visibility_timeout_seconds        = local.functions.invalidator.timeout + 30
  message_retention_seconds         = 345600
  kms_master_key_id                 = var.kms_key_arn
  kms_data_key_reuse_period_seconds = var.kms_key_arn == null ? null : 3600
  sqs_managed_sse_enabled           = var.kms_key_arn == null ? true : null
  tags                              = var.tags

  # While CloudFront or a target of events is busy, a message is received about every 90 s: after a day it ends in the dead-letter queue.
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters["cdn"].arn
    maxReceiveCount     = 1000
  })
}

resource "aws_sqs_queue_policy" "cdn" {
  count     = local.has_drain ? 1 : 0
  queue_url = aws_sqs_queue.cdn[0].url

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [merge(local.tls_only, { Action = "sqs:*", Resource = [aws_sqs_queue.cdn[0].arn] })]
  })
}

resource "aws_sqs_queue" "dead_letters" {
  for_each = local.dead_letters

  name                              = "${var.name}-${each.key}-dead-letters"
  message_retention_seconds         = 1209600
  kms_master_key_id                 = var.kms_key_arn
  kms_data_key_reuse_period_seconds = var.kms_key_arn == null ? null : 3600
  sqs_managed_sse_enabled           = var.kms_key_arn == null ? true : null
  tags                              = var.tags
}

resource "aws_sqs_queue_policy" "dead_letters" {
  for_each  = local.dead_letters
  queue_url = aws_sqs_queue.dead_letters[each.key].url

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [merge(local.tls_only, { Action = "sqs:*", Resource = [aws_sqs_queue.dead_letters[each.key].arn] })]
  })
}
