# The schedules of the compactor, the heartbeat and the verifier.

locals {
  schedules = {
    for name, schedule in {
      compaction   = { function = "compactor", expression = var.compaction_schedule, input = "{}", when = local.enabled.compactor }
      heartbeat    = { function = "aggregator", expression = var.heartbeat_schedule, input = jsonencode({ afterwrite = "heartbeat" }), when = local.has_heartbeat }
      verification = { function = "verifier", expression = var.verify_schedule, input = jsonencode({ verify = { sample = var.verify_sample } }), when = local.enabled.verifier }
    } : name => schedule if schedule.when
  }
}

resource "aws_scheduler_schedule" "schedule" {
  for_each = local.schedules

  name                = "${var.name}-${each.key}"
  description         = "Invokes ${each.value.function}"
  schedule_expression = each.value.expression
  kms_key_arn         = var.kms_key_arn

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = aws_lambda_alias.live[each.value.function].arn
    role_arn = aws_iam_role.scheduler[0].arn
    input    = each.value.input

    retry_policy {
      maximum_event_age_in_seconds = 300
      maximum_retry_attempts       = 3
    }

    dead_letter_config {
      arn = aws_sqs_queue.dead_letters["schedules"].arn
    }
  }

  depends_on = [aws_iam_role_policy.scheduler]
}

resource "aws_iam_role" "scheduler" {
  count = length(local.schedules) > 0 ? 1 : 0

  name                 = "${var.name}-scheduler"
  path                 = var.role_path
  permissions_boundary = var.role_permissions_boundary
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "scheduler.amazonaws.com" }
      Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
    }]
  })
}

resource "aws_iam_role_policy" "scheduler" {
  count = length(local.schedules) > 0 ? 1 : 0

  name = "scheduler"
  role = aws_iam_role.scheduler[0].name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat([
      {
        Sid      = "Functions"
        Effect   = "Allow"
        Action   = ["lambda:InvokeFunction"]
        Resource = distinct([for schedule in values(local.schedules) : aws_lambda_alias.live[schedule.function].arn])
      },
      {
        Sid      = "DeadLetters"
        Effect   = "Allow"
        Action   = ["sqs:SendMessage"]
        Resource = [aws_sqs_queue.dead_letters["schedules"].arn]
      },
      ], [for key in compact([var.kms_key_arn]) : {
        Sid      = "Encryption"
        Effect   = "Allow"
        Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource = [key]
    }])
  })
}
