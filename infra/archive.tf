# The bucket of the archive and the datasets, the delivery stream that writes the archive, and the queue of objects to export.

locals {
  bucket_name   = coalesce(var.bucket_name, "${var.name}-${local.account}-${local.region}")
  firehose_name = "${var.name}-archive"
  # By name: roles and environments are then known before the bucket is.
  bucket_arn       = "arn:${local.partition}:s3:::${local.bucket_name}"
  export_queue_arn = "arn:${local.partition}:sqs:${local.region}:${local.account}:${var.name}-export"
}

resource "aws_s3_bucket" "archive" {
  #checkov:skip=CKV_AWS_18:Access logs need a bucket that belongs to the account: set access_log_bucket
  #checkov:skip=CKV_AWS_144:A choice of cost that belongs to the deployment; the tables have point-in-time recovery
  count = local.has_archive ? 1 : 0

  bucket        = local.bucket_name
  force_destroy = var.force_destroy
  tags          = var.tags
}

resource "aws_s3_bucket_lifecycle_configuration" "archive" {
  #checkov:skip=CKV_AWS_300:The first rule aborts uploads; the check does not see it next to dynamic rules
  count  = local.has_archive ? 1 : 0
  bucket = aws_s3_bucket.archive[0].id

  lifecycle {
    precondition {
      condition     = alltrue([for transition in var.archive_transitions : transition.days < coalesce(var.archive_expiration_days, transition.days + 1)])
      error_message = "archive_expiration_days (${coalesce(var.archive_expiration_days, 0)}) must be later than every transition in archive_transitions: S3 refuses a rule that moves objects when it has deleted them. Remove these transitions, or delete later."
    }
  }

  # No rule has the prefix datasets/: the compactor removes superseded files itself.
  rule {
    id     = "aborted-uploads"
    status = "Enabled"
    filter {}
    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }

  dynamic "rule" {
    for_each = length(var.archive_transitions) > 0 || var.archive_expiration_days != null ? [true] : []
    content {
      id     = "archive"
      status = "Enabled"
      filter {
        prefix = "archive/"
      }
      dynamic "transition" {
        for_each = var.archive_transitions
        content {
          days          = transition.value.days
          storage_class = transition.value.storage_class
        }
      }
      dynamic "expiration" {
        for_each = [for days in [var.archive_expiration_days] : days if days != null]
        content {
          days = expiration.value
        }
      }
    }
  }

  rule {
    id     = "query-results"
    status = "Enabled"
    filter {
      prefix = "athena-results/"
    }
    expiration {
      days = 30
    }
  }

  dynamic "rule" {
    for_each = var.bucket_versioning ? [true] : []
    content {
      id     = "old-versions"
      status = "Enabled"
      filter {}
      noncurrent_version_expiration {
        noncurrent_days = 30
      }
    }
  }
}

resource "aws_s3_bucket_versioning" "archive" {
  count  = local.has_archive && var.bucket_versioning ? 1 : 0
  bucket = aws_s3_bucket.archive[0].id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_kinesis_firehose_delivery_stream" "archive" {
  count = local.has_archive ? 1 : 0

  name        = local.firehose_name
  destination = "extended_s3"
  tags        = var.tags

  server_side_encryption {
    enabled  = true
    key_type = var.kms_key_arn == null ? "AWS_OWNED_CMK" : "CUSTOMER_MANAGED_CMK"
    key_arn  = var.kms_key_arn
  }

  extended_s3_configuration {
    role_arn            = aws_iam_role.firehose[0].arn
    bucket_arn          = aws_s3_bucket.archive[0].arn
    prefix              = "archive/dt=!{timestamp:yyyy-MM-dd}/hh=!{timestamp:HH}/"
    error_output_prefix = "archive-errors/!{firehose:error-output-type}/"
    compression_format  = "GZIP"
    buffering_size      = var.firehose_buffering_size
    buffering_interval  = var.firehose_buffering_interval
    kms_key_arn         = var.kms_key_arn

    cloudwatch_logging_options {
      enabled         = true
      log_group_name  = aws_cloudwatch_log_group.firehose[0].name
      log_stream_name = aws_cloudwatch_log_stream.firehose[0].name
    }
  }

  depends_on = [aws_iam_role_policy.firehose]
}

resource "aws_cloudwatch_log_group" "firehose" {
  #checkov:skip=CKV_AWS_338:A setting, cloudwatch_logs_retention_in_days; logs have no data that must be kept
  count = local.has_archive ? 1 : 0

  name              = "/aws/kinesisfirehose/${local.firehose_name}"
  retention_in_days = var.cloudwatch_logs_retention_in_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

resource "aws_cloudwatch_log_stream" "firehose" {
  count = local.has_archive ? 1 : 0

  name           = "S3Delivery"
  log_group_name = aws_cloudwatch_log_group.firehose[0].name
}

# --- Objects to export ---

resource "aws_s3_bucket_notification" "archive" {
  count  = local.enabled.exporter ? 1 : 0
  bucket = aws_s3_bucket.archive[0].id

  queue {
    id            = "export"
    queue_arn     = aws_sqs_queue.export[0].arn
    events        = ["s3:ObjectCreated:*"]
    filter_prefix = "archive/"
  }

  depends_on = [aws_sqs_queue_policy.export]
}

resource "aws_sqs_queue" "export" {
  count = local.enabled.exporter ? 1 : 0

  name                              = "${var.name}-export"
  visibility_timeout_seconds        = 6 * local.functions.exporter.timeout
  message_retention_seconds         = 1209600
  kms_master_key_id                 = var.kms_key_arn
  kms_data_key_reuse_period_seconds = var.kms_key_arn == null ? null : 3600
  sqs_managed_sse_enabled           = var.kms_key_arn == null ? true : null
  tags                              = var.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters["export"].arn
    maxReceiveCount     = 10
  })
}

resource "aws_sqs_queue_policy" "export" {
  count     = local.enabled.exporter ? 1 : 0
  queue_url = aws_sqs_queue.export[0].url

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "Notifications"
        Effect    = "Allow"
        Principal = { Service = "s3.amazonaws.com" }
        Action    = "sqs:SendMessage"
        Resource  = aws_sqs_queue.export[0].arn
        Condition = {
          ArnEquals    = { "aws:SourceArn" = local.bucket_arn }
          StringEquals = { "aws:SourceAccount" = local.account }
        }
      },
      merge(local.tls_only, { Action = "sqs:*", Resource = [aws_sqs_queue.export[0].arn] }),
    ]
  })
}
