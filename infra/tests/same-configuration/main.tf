# A table and the module in one configuration: the stream is unknown until the table exists, and whenever it is replaced.

terraform {
  required_version = ">= 1.7"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100"
    }
  }
}

variable "model_description" {
  type = string
}

variable "package_s3" {
  type = object({ bucket = string, prefix = string })
}

# Another revision replaces the table.
variable "revision" {
  type    = number
  default = 1
}

# Whether the deployed name is given next to the stream. Otherwise it follows from the stream.
variable "is_named" {
  type    = bool
  default = false
}

resource "terraform_data" "revision" {
  triggers_replace = var.revision
}

resource "aws_dynamodb_table" "exams" {
  name             = "table"
  billing_mode     = "PAY_PER_REQUEST"
  hash_key         = "PK"
  range_key        = "SK"
  stream_enabled   = true
  stream_view_type = "NEW_AND_OLD_IMAGES"

  attribute {
    name = "PK"
    type = "S"
  }
  attribute {
    name = "SK"
    type = "S"
  }

  lifecycle {
    replace_triggered_by = [terraform_data.revision]
  }
}

resource "aws_kms_key" "deployment" {}

resource "aws_s3_bucket" "access_logs" {}

resource "aws_secretsmanager_secret" "cache" {}

resource "aws_cloudfront_distribution" "exams" {
  enabled = true

  origin {
    domain_name = "exams.example.com"
    origin_id   = "exams"
  }
  default_cache_behavior {
    allowed_methods        = ["GET", "HEAD"]
    cached_methods         = ["GET", "HEAD"]
    target_origin_id       = "exams"
    viewer_protocol_policy = "https-only"
  }
  restrictions {
    geo_restriction {
      restriction_type = "none"
    }
  }
  viewer_certificate {
    cloudfront_default_certificate = true
  }
}

module "afterwrite" {
  source = "../.."

  name              = "exams"
  model_description = var.model_description
  package_s3        = var.package_s3
  tables = {
    ExamBuddyTable = {
      name       = var.is_named ? aws_dynamodb_table.exams.name : null
      stream_arn = aws_dynamodb_table.exams.stream_arn
    }
  }

  kms_key_arn = aws_kms_key.deployment.arn
  # `coalesce` states that the value is not null. Whether these are null decides about resources.
  access_log_bucket          = coalesce(aws_s3_bucket.access_logs.id)
  cloudfront_distribution_id = coalesce(aws_cloudfront_distribution.exams.id)
  cache_url_secret_arn       = coalesce(aws_secretsmanager_secret.cache.arn)
}

output "stream_arns" {
  value = module.afterwrite.stream_arns
}

output "table_names" {
  value = module.afterwrite.table_names
}

output "environment" {
  value = module.afterwrite.cli_environment
}
