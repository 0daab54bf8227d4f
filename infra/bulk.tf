# The bulk backfill of tables that are too large for transactions: a worker, which is the exporter's zip with other settings, and a state
# machine that runs it over the data files of table exports. Nothing is deployed unless bulk_backfill is set, and nothing runs until an
# execution is started.

locals {
  bulk        = var.bulk_backfill ? { worker = true } : {}
  bulk_name   = "${var.name}-bulk"
  bulk_tables = "${local.state_table_arn}-*"

  bulk_worker_statements = [
    {
      Sid      = "Exports"
      Effect   = "Allow"
      Action   = ["s3:GetObject"]
      Resource = ["${local.bucket_arn}/${var.bulk_export_prefix}/*", "${local.bucket_arn}/bulk/*"]
    },
    {
      Sid      = "Results"
      Effect   = "Allow"
      Action   = ["s3:PutObject"]
      Resource = ["${local.bucket_arn}/bulk/*"]
    },
    {
      Sid      = "Bucket"
      Effect   = "Allow"
      Action   = ["s3:ListBucket"]
      Resource = [local.bucket_arn]
    },
    {
      # What is remembered here first counts for every worker.
      Sid       = "RememberedLookups"
      Effect    = "Allow"
      Action    = ["dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
      Resource  = [local.state_table_arn]
      Condition = local.state_condition.looking
    },
    {
      # The labels of their streams.
      Sid      = "SourceTables"
      Effect   = "Allow"
      Action   = ["dynamodb:DescribeTable"]
      Resource = values(local.table_arns)
    },
    {
      Sid      = "Logs"
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
      Resource = ["arn:${local.partition}:logs:${local.region}:${local.account}:log-group:/aws/lambda/${local.bulk_name}:*"]
    },
  ]
  bulk_lookup_statements = concat(
    length(local.lookups) == 0 ? [] : [{
      Sid      = "Lookups"
      Effect   = "Allow"
      Action   = ["dynamodb:Query"]
      Resource = distinct([for lookup in local.lookups : "${local.table_arns[lookup.table]}/index/${lookup.index}"])
    }],
    length(local.tables_read_by_key) == 0 ? [] : [{
      Sid      = "LookupsByKey"
      Effect   = "Allow"
      Action   = ["dynamodb:BatchGetItem"]
      Resource = [for table in local.tables_read_by_key : local.table_arns[table]]
    }]
  )
  bulk_key_statements = [
    for statement in local.key_statements.bulk : merge({ Effect = "Allow" }, { for name, value in statement : name => value if name != "when" }) if statement.when
  ]
  # The objects that the machine reads and writes, with its permissions also in ImportTable; and the new table, for which DynamoDB creates a grant.
  bulk_machine_key_statements = [for key in compact([var.kms_key_arn]) : {
    Sid       = "Encryption"
    Effect    = "Allow"
    Action    = ["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"]
    Resource  = [key]
    Condition = { StringEquals = { "kms:ViaService" = [for service in ["s3", "dynamodb"] : "${service}.${local.service_suffix}"] } }
  }]

  # --- The state machine ---

  bulk_retry = [{ ErrorEquals = ["States.ALL"], IntervalSeconds = 5, MaxAttempts = 4, BackoffRate = 3, JitterStrategy = "FULL" }]
  # A phase: one invocation for each request in the object that the plan has written.
  bulk_phases = {
    for phase, next in { lookups = "Items", items = "Reduce", reduce = "Import" } : phase => {
      Type                       = "Map"
      MaxConcurrency             = var.bulk_concurrency
      ItemReader = {
        Resource     = "arn:${local.partition}:states:::s3:getObject"
        ReaderConfig = { InputType = "JSON" }
        Parameters   = { Bucket = local.bucket_name, "Key.$" = "$.planned.plan.${phase}" }
      }
      ItemProcessor = {
        ProcessorConfig = { Mode = "DISTRIBUTED", ExecutionType = "STANDARD" }
        StartAt         = "Step"
        States = {
          Step = {
            Type           = "Task"
            Resource       = "arn:${local.partition}:states:::lambda:invoke"
            Parameters     = { FunctionName = one(values(aws_lambda_function.bulk)[*].qualified_arn), "Payload.$" = "$" }
            ResultSelector = { "totals.$" = "$.Payload.totals" }
            Retry          = local.bulk_retry
            End            = true
          }
        }
      }
      # The results of all steps exceed the maximum size of a state's result.
      ResultWriter = {
        Resource   = "arn:${local.partition}:states:::s3:putObject"
        Parameters = { Bucket = local.bucket_name, "Prefix.$" = "States.Format('{}/results', $.run)" }
      }
      ResultPath = null
      Next       = next
    }
  }
  # ImportTable has no parameter for the deletion protection.
  bulk_protection = { for name, state in {
    Protection = {
      Type       = "Task"
      Resource   = "arn:${local.partition}:states:::aws-sdk:dynamodb:updateTable"
      Parameters = { "TableName.$" = "$.into", DeletionProtectionEnabled = true }
      ResultPath = null
      Retry      = local.bulk_retry
      Next       = "Recovery"
    }
  } : name => state if var.deletion_protection_enabled }
  bulk_definition = {
    Comment = "Counts table exports into a new state table"
    StartAt = "Plan"
    States = merge(local.bulk_protection, {
      Plan = {
        Type     = "Task"
        Resource = "arn:${local.partition}:states:::lambda:invoke"
        Parameters = {
          FunctionName = one(values(aws_lambda_function.bulk)[*].qualified_arn)
          Payload = {
            bulk                 = "plan"
            "run.$"              = "$.run"
            "exports.$"          = "$.exports"
            "mapping_since_ms.$" = "$.mapping_since_ms"
            partitions           = var.bulk_partitions
          }
        }
        ResultSelector = { "plan.$" = "$.Payload" }
        ResultPath     = "$.planned"
        Retry          = local.bulk_retry
        Next           = "HasLookups"
      }
      HasLookups = {
        Type    = "Choice"
        Choices = [{ Variable = "$.planned.plan.requests[0]", NumericEquals = 0, Next = "Items" }]
        Default = "Lookups"
      }
      Lookups = local.bulk_phases.lookups
      Items   = local.bulk_phases.items
      Reduce  = local.bulk_phases.reduce
      Import = {
        Type     = "Task"
        Resource = "arn:${local.partition}:states:::aws-sdk:dynamodb:importTable"
        Parameters = {
          "ClientToken.$"      = "$$.Execution.Name"
          InputFormat          = "DYNAMODB_JSON"
          InputCompressionType = "GZIP"
          S3BucketSource       = { S3Bucket = local.bucket_name, "S3KeyPrefix.$" = "$.planned.plan.import" }
          TableCreationParameters = merge({
            "TableName.$"        = "$.into"
            BillingMode          = "PAY_PER_REQUEST"
            AttributeDefinitions = [for name, type in local.state_attributes : { AttributeName = name, AttributeType = type }]
            KeySchema            = [{ AttributeName = "PK", KeyType = "HASH" }, { AttributeName = "SK", KeyType = "RANGE" }]
            GlobalSecondaryIndexes = concat(
              [{ IndexName = "parked", KeySchema = [{ AttributeName = "behind", KeyType = "HASH" }], Projection = { ProjectionType = "KEYS_ONLY" } }],
              [for measure in local.ranked_measures : {
                IndexName  = "rank_${measure}"
                KeySchema  = [{ AttributeName = "rank_${measure}", KeyType = "HASH" }, { AttributeName = measure, KeyType = "RANGE" }]
                Projection = { ProjectionType = "ALL" }
              }],
            )
          }, { for name, value in { SseSpecification = { Enabled = true, SseType = "KMS", KmsMasterKeyId = var.kms_key_arn } } : name => value if var.kms_key_arn != null })
        }
        ResultSelector = { "arn.$" = "$.ImportTableDescription.ImportArn" }
        ResultPath     = "$.import"
        # The token makes a repetition return the import that is in progress.
        Retry = local.bulk_retry
        Next  = "WaitForImport"
      }
      WaitForImport = { Type = "Wait", Seconds = 60, Next = "DescribeImport" }
      DescribeImport = {
        Type           = "Task"
        Resource       = "arn:${local.partition}:states:::aws-sdk:dynamodb:describeImport"
        Parameters     = { "ImportArn.$" = "$.import.arn" }
        ResultSelector = { "status.$" = "$.ImportTableDescription.ImportStatus", "errors.$" = "$.ImportTableDescription.ErrorCount" }
        ResultPath     = "$.imported"
        Retry          = local.bulk_retry
        Next           = "IsImported"
      }
      IsImported = {
        Type = "Choice"
        Choices = [
          { Variable = "$.imported.status", StringEquals = "IN_PROGRESS", Next = "WaitForImport" },
          { And = [{ Variable = "$.imported.status", StringEquals = "COMPLETED" }, { Variable = "$.imported.errors", NumericEquals = 0 }], Next = "TimeToLive" },
        ]
        Default = "ImportFailed"
      }
      ImportFailed = { Type = "Fail", Error = "ImportFailed", Cause = "DynamoDB did not import every item. The log group /aws-dynamodb/imports has the reasons." }
      TimeToLive = {
        Type       = "Task"
        Resource   = "arn:${local.partition}:states:::aws-sdk:dynamodb:updateTimeToLive"
        Parameters = { "TableName.$" = "$.into", TimeToLiveSpecification = { AttributeName = "expires_at", Enabled = true } }
        ResultPath = null
        Retry      = local.bulk_retry
        Next       = var.deletion_protection_enabled ? "Protection" : "Recovery"
      }
      Recovery = {
        Type       = "Task"
        Resource   = "arn:${local.partition}:states:::aws-sdk:dynamodb:updateContinuousBackups"
        Parameters = { "TableName.$" = "$.into", PointInTimeRecoverySpecification = { PointInTimeRecoveryEnabled = true } }
        ResultPath = null
        Retry      = local.bulk_retry
        End        = true
      }
    })
  }
  bulk_machine_arn = "arn:${local.partition}:states:${local.region}:${local.account}:stateMachine:${local.bulk_name}"

  bulk_machine_statements = [
    { Sid = "Worker", Effect = "Allow", Action = ["lambda:InvokeFunction"], Resource = values(aws_lambda_function.bulk)[*].qualified_arn },
    # A distributed map starts an execution for each of its items.
    { Sid = "Children", Effect = "Allow", Action = ["states:StartExecution"], Resource = [local.bulk_machine_arn] },
    {
      Sid      = "ChildExecutions"
      Effect   = "Allow"
      Action   = ["states:DescribeExecution", "states:StopExecution"]
      Resource = ["arn:${local.partition}:states:${local.region}:${local.account}:execution:${local.bulk_name}:*", "arn:${local.partition}:states:${local.region}:${local.account}:execution:${local.bulk_name}/*"]
    },
    {
      # A redrive of the machine's execution redrives the failed executions of its map runs.
      Sid      = "RedrivenChildren"
      Effect   = "Allow"
      Action   = ["states:RedriveExecution"]
      Resource = ["arn:${local.partition}:states:${local.region}:${local.account}:execution:${local.bulk_name}/*"]
    },
    { Sid = "Requests", Effect = "Allow", Action = ["s3:GetObject", "s3:PutObject"], Resource = ["${local.bucket_arn}/bulk/*"] },
    { Sid = "Bucket", Effect = "Allow", Action = ["s3:ListBucket"], Resource = [local.bucket_arn] },
    {
      Sid      = "NewStateTable"
      Effect   = "Allow"
      Action   = ["dynamodb:ImportTable", "dynamodb:DescribeImport", "dynamodb:UpdateTable", "dynamodb:UpdateTimeToLive", "dynamodb:UpdateContinuousBackups"]
      Resource = [local.bulk_tables]
    },
    {
      # ImportTable reports the items that it refuses there.
      Sid      = "ImportLogs"
      Effect   = "Allow"
      Action   = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogGroups", "logs:DescribeLogStreams", "logs:PutLogEvents", "logs:PutRetentionPolicy"]
      Resource = ["arn:${local.partition}:logs:${local.region}:${local.account}:log-group:/aws-dynamodb/*"]
    },
  ]
}

resource "aws_cloudwatch_log_group" "bulk" {
  #checkov:skip=CKV_AWS_338:A setting, cloudwatch_logs_retention_in_days; logs have no data that must be kept
  for_each = local.bulk

  name              = "/aws/lambda/${local.bulk_name}"
  retention_in_days = var.cloudwatch_logs_retention_in_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

resource "aws_lambda_function" "bulk" {
  #checkov:skip=CKV_AWS_115:The state machine bounds how many run at once
  #checkov:skip=CKV_AWS_116:The state machine repeats a step that fails
  #checkov:skip=CKV_AWS_117:It reaches S3 and DynamoDB only
  #checkov:skip=CKV_AWS_272:Signing needs a profile of the account; source_code_hash pins the zips
  for_each = local.bulk

  function_name = local.bulk_name
  description   = "Afterwrite bulk backfill, model ${local.model.name}, generation ${local.model.generation}"
  role          = aws_iam_role.bulk["worker"].arn
  runtime       = "provided.al2023"
  handler       = "bootstrap"
  architectures = [local.architecture]
  # One processor; the memory of a step is bounded by one data file.
  memory_size = 1769
  timeout     = 900
  kms_key_arn = var.kms_key_arn
  publish     = true
  tags        = var.tags

  filename          = var.package_dir == null ? null : local.packages["exporter"]
  source_code_hash  = var.package_dir == null ? null : try(filebase64sha256(local.packages["exporter"]), null)
  s3_bucket         = try(var.package_s3.bucket, null)
  s3_key            = var.package_s3 == null ? null : "${var.package_s3.prefix}exporter.zip"
  s3_object_version = try(var.package_s3.versions["exporter"], null)

  environment {
    variables = {
      for name, value in merge(local.common_env, {
        AFTERWRITE_BUCKET      = local.bucket_name
        AFTERWRITE_STATE_TABLE = local.state_table_name
      }) : name => value if value != null
    }
  }

  logging_config {
    log_format            = "JSON"
    log_group             = aws_cloudwatch_log_group.bulk["worker"].name
    application_log_level = var.log_level
    system_log_level      = "INFO"
  }

  tracing_config {
    mode = "PassThrough"
  }

  lifecycle {
    precondition {
      condition     = local.has_archive && local.has_aggregate
      error_message = "bulk_backfill needs rollups in the model and the archive (create_archive = true): what changes since the export is replayed from it."
    }
  }

  depends_on = [aws_iam_role_policy.bulk]
}

resource "aws_sfn_state_machine" "bulk" {
  #checkov:skip=CKV_AWS_284:Its steps are in its history, which is kept for 90 days
  #checkov:skip=CKV_AWS_285:Its steps are in its history, which is kept for 90 days
  for_each = local.bulk

  name       = local.bulk_name
  role_arn   = aws_iam_role.bulk_machine["worker"].arn
  type       = "STANDARD"
  definition = jsonencode(local.bulk_definition)
  tags       = var.tags

  depends_on = [aws_iam_role_policy.bulk_machine]
}

resource "aws_iam_role" "bulk" {
  for_each = local.bulk

  name                 = local.bulk_name
  path                 = var.role_path
  permissions_boundary = var.role_permissions_boundary
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "lambda.amazonaws.com" } }]
  })
}

resource "aws_iam_role_policy" "bulk" {
  for_each = local.bulk

  name   = "worker"
  role   = aws_iam_role.bulk[each.key].name
  policy = jsonencode({ Version = "2012-10-17", Statement = concat(local.bulk_worker_statements, local.bulk_lookup_statements, local.bulk_key_statements) })
}

resource "aws_iam_role" "bulk_machine" {
  for_each = local.bulk

  name                 = "${local.bulk_name}-machine"
  path                 = var.role_path
  permissions_boundary = var.role_permissions_boundary
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "states.amazonaws.com" }
      Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
    }]
  })
}

resource "aws_iam_role_policy" "bulk_machine" {
  for_each = local.bulk

  name   = "machine"
  role   = aws_iam_role.bulk_machine[each.key].name
  policy = jsonencode({ Version = "2012-10-17", Statement = concat(local.bulk_machine_statements, local.bulk_machine_key_statements) })
}
