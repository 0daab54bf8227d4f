# Redrive: attach this policy to the roles that `redrive_principal_arns` names.

locals {
  # `afterwrite redrive` processes records with the caller's permissions: the functions' permissions, and permissions for a job in the state table.
  redriven_partitions = concat(["AFTERWRITE#JOB#*"], local.counted_partitions)
  redrive_statements = concat(
    [
      {
        Sid       = "FailedRecords"
        Action    = ["s3:GetObject", "s3:DeleteObject"]
        Resource  = ["${local.failures_arn}/*"]
        Condition = null
        when      = true
      },
      {
        Sid       = "RedrivenRecords"
        Action    = ["s3:PutObject"]
        Resource  = ["${local.failures_arn}/redriven/*"]
        Condition = null
        when      = true
      },
      {
        Sid       = "FailedRecordsBucket"
        Action    = ["s3:ListBucket"]
        Resource  = [local.failures_arn]
        Condition = null
        when      = true
      },
      {
        Sid       = "JobsLedgerAndRollups"
        Action    = ["dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
        Resource  = [local.state_table_arn]
        Condition = contains(local.redriven_partitions, "*") ? null : { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = local.redriven_partitions } }
        when      = local.has_aggregate
      },
      {
        # Not narrowed: a parked item may be of an entity that the model has no longer.
        Sid       = "ParkedSourceItems"
        Action    = ["dynamodb:BatchGetItem"]
        Resource  = values(local.table_arns)
        Condition = null
        when      = local.has_aggregate
      },
      {
        # The label of a stream, and whether a table can be restored.
        Sid       = "Tables"
        Action    = ["dynamodb:DescribeTable", "dynamodb:DescribeContinuousBackups"]
        Resource  = concat([local.state_table_arn], values(local.table_arns))
        Condition = null
        when      = local.has_aggregate
      },
      {
        # A state table that is older than the module may lack the index: then the whole table is read.
        Sid       = "ParkedItems"
        Action    = ["dynamodb:Scan"]
        Resource  = concat(["${local.state_table_arn}/index/parked"], var.create_state_table ? [] : [local.state_table_arn])
        Condition = null
        when      = local.has_aggregate
      },
    ],
    [
      for statement in local.counting_statements : merge(statement, { when = statement.when && local.has_aggregate })
      if !contains(["LedgerAndRollups", "StateTable"], statement.Sid) && !startswith(statement.Sid, "SourceItems")
    ],
    [for statement in local.relaying_statements : merge(statement, { when = statement.when && length(local.relayed) > 0 })],
  )
  redrive_policy = {
    Version = "2012-10-17"
    Statement = [
      for statement in concat(local.redrive_statements, local.key_statements.redrive) : {
        for name, value in {
          Sid       = statement.Sid
          Effect    = "Allow"
          Action    = statement.Action
          Resource  = statement.Resource
          Condition = statement.Condition
        } : name => value if value != null
      } if statement.when
    ]
  }
}

resource "aws_iam_policy" "redrive" {
  name        = "${var.name}-redrive"
  path        = var.role_path
  description = "Processes records that the functions could not process"
  policy      = jsonencode(local.redrive_policy)
  tags        = var.tags
}
