# Protection of both buckets, and the bucket of records that could not be processed.

locals {
  failures_name = "${var.name}-failures-${local.account}-${local.region}"
  failures_arn  = "arn:${local.partition}:s3:::${local.failures_name}"
  buckets = merge(
    { failures = aws_s3_bucket.failures.id },
    local.has_archive ? { archive = one(aws_s3_bucket.archive[*].id) } : {},
  )

  # A statement without its action and resource.
  tls_only = {
    Sid       = "TlsOnly"
    Effect    = "Deny"
    Principal = "*"
    Condition = { Bool = { "aws:SecureTransport" = "false" } }
  }
}

resource "aws_s3_bucket_public_access_block" "bucket" {
  for_each = local.buckets

  bucket                  = each.value
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "bucket" {
  for_each = local.buckets
  bucket   = each.value

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "bucket" {
  for_each = local.buckets
  bucket   = each.value

  rule {
    bucket_key_enabled = var.kms_key_arn != null
    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_logging" "bucket" {
  for_each = { for bucket, id in local.buckets : bucket => id if var.access_log_bucket != null }

  bucket        = each.value
  target_bucket = var.access_log_bucket
  target_prefix = "${var.name}/${each.key}/"
}

resource "aws_s3_bucket_policy" "archive" {
  count  = local.has_archive ? 1 : 0
  bucket = aws_s3_bucket.archive[0].id

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [merge(local.tls_only, { Action = "s3:*", Resource = [local.bucket_arn, "${local.bucket_arn}/*"] })]
  })

  depends_on = [aws_s3_bucket_public_access_block.bucket]
}

# --- Records that could not be processed: whole items, encrypted, short-lived, readable by redrive alone ---

resource "aws_s3_bucket" "failures" {
  #checkov:skip=CKV_AWS_18:Access logs need a bucket that belongs to the account: set access_log_bucket
  #checkov:skip=CKV_AWS_21:Failed records are deleted after days, and no version of them may remain
  #checkov:skip=CKV_AWS_144:The records are in the archive, and whole items must not spread to another region
  #checkov:skip=CKV2_AWS_62:An alarm on the mapping reports each failed record: nothing reads a notification
  bucket        = local.failures_name
  force_destroy = var.force_destroy
  tags          = var.tags

  lifecycle {
    precondition {
      condition     = length(local.failures_name) <= 63
      error_message = "The name of a bucket has at most 63 characters, and ${local.failures_name} has ${length(local.failures_name)}: choose a shorter name."
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "failures" {
  bucket = aws_s3_bucket.failures.id

  rule {
    id     = "short-lived"
    status = "Enabled"
    filter {}
    expiration {
      days = var.on_failure_expiration_days
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_s3_bucket_policy" "failures" {
  bucket = aws_s3_bucket.failures.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      merge(local.tls_only, { Action = "s3:*", Resource = [aws_s3_bucket.failures.arn, "${aws_s3_bucket.failures.arn}/*"] }),
      {
        Sid       = "ReadableByRedriveAlone"
        Effect    = "Deny"
        Principal = "*"
        Action    = ["s3:GetObject", "s3:GetObjectVersion"]
        Resource  = "${aws_s3_bucket.failures.arn}/*"
        Condition = { ArnNotLike = { "aws:PrincipalArn" = length(var.redrive_principal_arns) > 0 ? var.redrive_principal_arns : ["arn:${local.partition}:iam::${local.account}:role/nobody"] } }
      },
    ]
  })

  depends_on = [aws_s3_bucket_public_access_block.bucket]
}
