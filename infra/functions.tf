resource "aws_cloudwatch_log_group" "function" {
  #checkov:skip=CKV_AWS_338:A setting, cloudwatch_logs_retention_in_days; logs have no data that must be kept
  for_each = local.deployed

  name              = "/aws/lambda/${var.name}-${each.key}"
  retention_in_days = var.cloudwatch_logs_retention_in_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

resource "aws_lambda_function" "function" {
  #checkov:skip=CKV_AWS_116:Streams have the on-failure bucket, queues have dead-letter queues; a failed schedule is followed by the next
  #checkov:skip=CKV_AWS_272:Signing needs a profile of the account; source_code_hash pins the zips
  for_each = local.deployed

  function_name = "${var.name}-${each.key}"
  # The generation is read again when a share of the invocations goes to this version.
  description                    = "Afterwrite ${each.key}, model ${local.model.name}, generation ${local.model.generation}"
  role                           = aws_iam_role.function[each.key].arn
  runtime                        = "provided.al2023"
  handler                        = "bootstrap"
  architectures                  = [local.architecture]
  memory_size                    = each.value.memory_size
  timeout                        = each.value.timeout
  reserved_concurrent_executions = each.value.reserved_concurrent_executions
  kms_key_arn                    = var.kms_key_arn
  publish                        = true
  tags                           = var.tags

  filename          = var.package_dir == null ? null : local.packages[each.key]
  source_code_hash  = var.package_dir == null ? null : try(filebase64sha256(local.packages[each.key]), null)
  s3_bucket         = try(var.package_s3.bucket, null)
  s3_key            = var.package_s3 == null ? null : "${var.package_s3.prefix}${each.key}.zip"
  s3_object_version = try(var.package_s3.versions[each.key], null)

  environment {
    variables = local.environments[each.key]
  }

  ephemeral_storage {
    size = each.value.ephemeral_storage_size
  }

  logging_config {
    log_format            = "JSON"
    log_group             = aws_cloudwatch_log_group.function[each.key].name
    application_log_level = var.log_level
    system_log_level      = "INFO"
  }

  tracing_config {
    mode = var.tracing_mode
  }

  dynamic "vpc_config" {
    for_each = local.in_vpc[each.key] ? [true] : []
    content {
      subnet_ids         = var.vpc_subnet_ids
      security_group_ids = var.vpc_security_group_ids
    }
  }

  lifecycle {
    precondition {
      condition     = var.package_dir == null ? true : fileexists(local.packages[each.key])
      error_message = "There is no ${each.key}.zip in ${coalesce(var.package_dir, "package_dir")}. Build the zips with infra/build, for the architecture ${local.architecture}."
    }
  }

  depends_on = [aws_iam_role_policy.function, terraform_data.model]
}

locals {
  packages = { for function in keys(local.defaults) : function => "${coalesce(local.package_dir, path.module)}/${function}.zip" }
}

# Everything invokes the alias: a deployment is undone by pointing it to the previous version.
resource "aws_lambda_alias" "live" {
  for_each = local.deployed

  name             = "live"
  description      = "The version that streams, queues and schedules invoke"
  function_name    = aws_lambda_function.function[each.key].function_name
  function_version = aws_lambda_function.function[each.key].version

  dynamic "routing_config" {
    for_each = contains(keys(var.canary), each.key) ? [var.canary[each.key]] : []
    content {
      additional_version_weights = { (routing_config.value.version) = routing_config.value.weight }
    }
  }
}

# Two generations of a model must not count at once: an entry of the higher one fails the records of the lower one.
data "aws_lambda_function" "canary" {
  for_each = { for function, canary in var.canary : function => canary if local.enabled[function] }

  function_name = "${var.name}-${each.key}"
  qualifier     = each.value.version

  lifecycle {
    postcondition {
      condition     = endswith(self.description, "model ${local.model.name}, generation ${local.model.generation}")
      error_message = "Version ${each.value.version} of ${var.name}-${each.key} has another model or generation (${self.description}) than the one that is deployed (model ${local.model.name}, generation ${local.model.generation}). A share of the invocations may only go to a version with the same generation: deploy it to all at once."
    }
  }
}

# The schedules invoke asynchronously. A later run does the work of a failed run.
resource "aws_lambda_function_event_invoke_config" "scheduled" {
  for_each = local.schedules

  function_name                = aws_lambda_function.function[each.value.function].function_name
  qualifier                    = aws_lambda_alias.live[each.value.function].name
  maximum_retry_attempts       = 0
  maximum_event_age_in_seconds = 3600
}
