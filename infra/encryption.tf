# Permissions for the deployment's own key (`kms_key_arn`) and for the keys of existing tables. They follow from the other permissions of a role.

locals {
  # The actions for which a service uses the key of an encrypted table (and its stream), object, queue, delivery stream or secret with the
  # permissions of the caller. A sender of messages also decrypts: SQS reuses a data key.
  key_uses = {
    "kms:Decrypt" = [
      "dynamodb:BatchGetItem", "dynamodb:GetRecords", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:Scan", "dynamodb:UpdateItem",
      "s3:GetObject", "secretsmanager:GetSecretValue", "sns:Publish", "sqs:ReceiveMessage", "sqs:SendMessage",
    ]
    "kms:GenerateDataKey" = ["dynamodb:PutItem", "dynamodb:UpdateItem", "firehose:PutRecordBatch", "s3:PutObject", "sns:Publish", "sqs:SendMessage"]
  }

  # The actions of all roles and policies that use the key through services.
  key_users = merge(
    { for function in keys(local.deployed) : function => flatten([for statement in local.function_statements[function] : statement.Action if statement.when]) },
    { bulk = flatten([for statement in concat(local.bulk_worker_statements, local.bulk_lookup_statements) : statement.Action]) },
    { redrive = flatten([for statement in local.redrive_statements : statement.Action if statement.when]) },
  )
  # The services through which each of them uses it. A function's environment is encrypted, too.
  key_services = {
    for user, actions in local.key_users : user => {
      for key_action, uses in local.key_uses : key_action => distinct(concat(
        key_action == "kms:Decrypt" && user != "redrive" ? ["lambda"] : [],
        [for action in actions : split(":", action)[0] if contains(uses, action)],
      ))
    }
  }

  # Existing tables may be encrypted with keys of their own. The key aws/dynamodb is named, too: it admits every role of the account.
  table_keys = setsubtract(
    compact([for existing in values(data.aws_dynamodb_table.source) : try(existing.server_side_encryption[0].kms_key_arn, "")]),
    compact([var.kms_key_arn]),
  )
  reads_source_tables = concat(local.readers, ["verifier", "bulk", "redrive"])

  key_statements = {
    for user, services in local.key_services : user => concat(
      [
        for key_action, via in services : {
          Sid       = trimprefix(key_action, "kms:")
          Action    = [key_action]
          Resource  = compact([var.kms_key_arn])
          Condition = { StringEquals = { "kms:ViaService" = [for service in via : "${service}.${local.service_suffix}"] } }
          when      = var.kms_key_arn != null && length(via) > 0
        }
      ],
      [
        {
          Sid       = "SourceTableKeys"
          Action    = [for key_action, via in services : key_action if contains(via, "dynamodb")]
          Resource  = sort(local.table_keys)
          Condition = { StringEquals = { "kms:ViaService" = ["dynamodb.${local.service_suffix}"] } }
          when      = length(local.table_keys) > 0 && contains(local.reads_source_tables, user)
        },
      ],
    )
  }
  service_suffix = "${local.region}.${data.aws_partition.current.dns_suffix}"
}
