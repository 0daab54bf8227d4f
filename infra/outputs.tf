locals {
  cli_environment = { for name, value in merge(local.relaying_env, {
    AFTERWRITE_CACHE_URL   = null
    AFTERWRITE_STATE_TABLE = local.state_table_name
    AFTERWRITE_TABLES      = length(local.renames) == 0 ? null : join(",", local.renames)
  }) : name => value if value != null }

  # The model that the functions read from their zips is next to them, under the name that infra/build gives it.
  model_file = "${coalesce(local.package_dir, path.module)}/model.toml"
  cli_place = { for name, value in {
    AWS_REGION         = local.region
    AWS_DEFAULT_REGION = local.region
    AFTERWRITE_MODEL   = fileexists(local.model_file) ? local.model_file : startswith(var.model, "/") ? null : var.model
  } : name => value if value != null }
}

output "function_names" {
  description = "The names of the functions."
  value       = { for function, deployed in aws_lambda_function.function : function => deployed.function_name }
}

output "function_arns" {
  description = "The ARNs of the functions' aliases `live`."
  value       = { for function, alias in aws_lambda_alias.live : function => alias.arn }
}

output "role_arns" {
  description = "The ARNs of the functions' roles."
  value       = { for function, role in aws_iam_role.function : function => role.arn }
}

output "state_table_name" {
  description = "The table of rollups and ledger. Applications read rollups from it."
  value       = local.state_table_name
}

output "state_table_arn" {
  description = "The ARN of the state table."
  value       = local.state_table_arn
}

output "state_stream_arn" {
  description = "The stream of the state table, if rollups of the model are sources."
  value       = local.state_stream_arn
}

output "table_names" {
  description = "The deployed names of the source tables, by their names in the model."
  value       = local.table_names
}

output "stream_arns" {
  description = "The streams of the source tables, by their names in the model."
  value       = local.stream_arns
}

output "bucket_name" {
  description = "The bucket of the archive and the datasets."
  value       = one(aws_s3_bucket.archive[*].id)
}

output "failures_bucket_name" {
  description = "The bucket of records that could not be processed."
  value       = aws_s3_bucket.failures.id
}

output "firehose_stream_name" {
  description = "The delivery stream of the archive."
  value       = one(aws_kinesis_firehose_delivery_stream.archive[*].name)
}

output "queue_urls" {
  description = "The queues: `export` of objects to export, `cdn` of stale paths."
  value = { for name, url in {
    export = one(aws_sqs_queue.export[*].url)
    cdn    = one(aws_sqs_queue.cdn[*].url)
  } : name => url if url != null }
}

output "dead_letter_queue_urls" {
  description = "The dead-letter queues."
  value       = { for name, queue in aws_sqs_queue.dead_letters : name => queue.url }
}

output "redrive_policy_arn" {
  description = "The policy for the roles that `redrive_principal_arns` names."
  value       = aws_iam_policy.redrive.arn
}

output "athena_workgroup" {
  description = "The workgroup of Athena."
  value       = one(aws_athena_workgroup.datasets[*].name)
}

output "athena_database" {
  description = "The database of the datasets."
  value       = one(aws_glue_catalog_database.datasets[*].name)
}

output "dashboard_name" {
  description = "The dashboard in CloudWatch, if `observability` is full."
  value       = one(aws_cloudwatch_dashboard.deployment[*].dashboard_name)
}

output "cli_environment" {
  description = "The environment of the command line `afterwrite` for this deployment, apart from AFTERWRITE_MODEL, AWS_REGION and AFTERWRITE_CACHE_URL."
  value       = local.cli_environment
}

output "cli_exports" {
  description = "The same, with the region and the model, as lines of a shell: `eval \"$(terraform output -raw cli_exports)\"`."
  value = join("", [
    for name, value in merge(local.cli_environment, local.cli_place) : "export ${name}='${replace(value, "'", "'\\''")}'\n"
  ])
}

output "bulk_state_machine_arn" {
  description = "The state machine of the bulk backfill."
  value       = one(values(aws_sfn_state_machine.bulk)[*].arn)
}
