# One role for each function: exact actions on exact resources. `dynamodb:LeadingKeys` narrows access to the items that the model
# names; a model whose keys begin with a variable cannot be narrowed (its pattern is `*`). Resources are named by their names, not by
# attributes of what is created: so a plan shows the policies, and refuses a policy that is too long.

locals {
  # The beginnings of the partition keys of ledger entries, remembered lookups and rollups.
  counted_partitions = distinct(concat(["LEDGER#*", "LOOKUP#*"], local.rollup_partitions))
  # With the heartbeat of the state table, if its stream is read.
  aggregated_partitions = concat(local.counted_partitions, local.has_levels && local.has_heartbeat ? ["AFTERWRITE#HEARTBEAT"] : [])
  state_condition = {
    counting = contains(local.counted_partitions, "*") ? null : { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = local.aggregated_partitions } }
    looking  = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = ["LOOKUP#*"] } }
  }

  # The items of the application's tables that are written: those with mirrors, and the heartbeat.
  written_partitions = {
    for table in local.source_tables : table => distinct(concat(
      local.mirrored_partitions[table],
      local.has_heartbeat ? [local.keys[table][0].type == "S" ? "AFTERWRITE#HEARTBEAT" : "*"] : [],
    ))
  }
  writing_statements = [
    for table in local.source_tables : {
      Sid      = "Mirrors${index(local.source_tables, table)}"
      Action   = ["dynamodb:UpdateItem"]
      Resource = [local.table_arns[table]]
      Condition = contains(local.written_partitions[table], "*") ? null : {
        "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = local.written_partitions[table] }
      }
      when = length(local.written_partitions[table]) > 0
    }
  ]

  # An item whose ledger entry may be gone; copies before they are written; items that lookups read by their primary keys. All are items
  # of the model's entities.
  reading_statements = [
    for table in local.source_tables : {
      Sid      = "SourceItems${index(local.source_tables, table)}"
      Action   = ["dynamodb:BatchGetItem"]
      Resource = [local.table_arns[table]]
      Condition = contains(local.read_partitions[table], "*") ? null : {
        "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = local.read_partitions[table] }
      }
      when = length(local.read_partitions[table]) > 0
    }
  ]

  counting_statements = concat(local.writing_statements, local.reading_statements, [
    {
      Sid       = "LedgerAndRollups"
      Action    = ["dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
      Resource  = [local.state_table_arn]
      Condition = local.state_condition.counting
      when      = true
    },
    {
      # Whether its stream is as the model needs it.
      Sid       = "StateTable"
      Action    = ["dynamodb:DescribeTable"]
      Resource  = [local.state_table_arn]
      Condition = null
      when      = local.has_levels
    },
    {
      Sid       = "Lookups"
      Action    = ["dynamodb:Query"]
      Resource  = distinct([for lookup in local.lookups : "${local.table_arns[lookup.table]}/index/${lookup.index}"])
      Condition = null
      when      = length(local.lookups) > 0
    },
  ])

  relaying_statements = [
    {
      Sid       = "Archive"
      Action    = ["firehose:PutRecordBatch"]
      Resource  = ["arn:${local.partition}:firehose:${local.region}:${local.account}:deliverystream/${local.firehose_name}"]
      Condition = null
      when      = local.has_archive
    },
    {
      # Lines that are too long for the delivery stream.
      Sid       = "LongLines"
      Action    = ["s3:PutObject"]
      Resource  = ["${local.bucket_arn}/archive/*"]
      Condition = null
      when      = local.has_archive
    },
    {
      Sid       = "CacheAddress"
      Action    = ["secretsmanager:GetSecretValue"]
      Resource  = compact([var.cache_url_secret_arn])
      Condition = null
      when      = var.cache_url_secret_arn != null
    },
    {
      Sid       = "StalePaths"
      Action    = ["sqs:SendMessage"]
      Resource  = [local.cdn_queue_arn]
      Condition = null
      when      = local.has_drain
    },
    local.event_statement,
  ]

  # The event source mapping of a stream uses the function's role.
  stream_statements = [
    {
      Sid       = "Stream"
      Action    = ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"]
      Resource  = [for arn in values(local.table_arns) : "${arn}/stream/*"]
      Condition = null
      when      = true
    },
    {
      Sid       = "StateStream"
      Action    = ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"]
      Resource  = ["${local.state_table_arn}/stream/*"]
      Condition = null
      when      = local.has_levels
    },
    {
      Sid       = "FailedRecords"
      Action    = ["s3:PutObject"]
      Resource  = ["${local.failures_arn}/aws/lambda/*"]
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
  ]

  function_statements = {
    aggregator = concat(
      [for statement in local.stream_statements : merge(statement, { when = statement.when && (statement.Sid != "StateStream" || try(local.reads_state.aggregator, false)) })],
      [for statement in local.counting_statements : merge(statement, { when = statement.when && local.has_aggregate })],
      [for statement in local.relaying_statements : merge(statement, { when = statement.when && var.single_reader })],
    )
    relay = concat(
      [for statement in local.stream_statements : merge(statement, { when = statement.when && (statement.Sid != "StateStream" || try(local.reads_state.relay, false)) })],
      local.relaying_statements,
    )
    invalidator = [
      {
        Sid       = "Invalidations"
        Action    = ["cloudfront:CreateInvalidation"]
        Resource  = ["arn:${local.partition}:cloudfront::${local.account}:distribution/${coalesce(var.cloudfront_distribution_id, "none")}"]
        Condition = null
        when      = local.has_cdn
      },
      local.event_statement,
      {
        Sid       = "Queue"
        Action    = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
        Resource  = [local.cdn_queue_arn]
        Condition = null
        when      = true
      },
    ]
    exporter = [
      {
        Sid       = "Archive"
        Action    = ["s3:GetObject"]
        Resource  = ["${local.bucket_arn}/archive/*", "${local.bucket_arn}/datasets/*"]
        Condition = null
        when      = true
      },
      {
        Sid       = "Datasets"
        Action    = ["s3:PutObject"]
        Resource  = ["${local.bucket_arn}/datasets/*", "${local.bucket_arn}/exported/*", "${local.bucket_arn}/heartbeat/*", "${local.bucket_arn}/rejected/*"]
        Condition = null
        when      = true
      },
      {
        # To distinguish a version that does not exist yet from a forbidden one.
        Sid       = "Bucket"
        Action    = ["s3:ListBucket"]
        Resource  = [local.bucket_arn]
        Condition = null
        when      = true
      },
      {
        Sid       = "RememberedLookups"
        Action    = ["dynamodb:BatchGetItem"]
        Resource  = [local.state_table_arn]
        Condition = local.state_condition.looking
        when      = local.has_aggregate
      },
      {
        Sid       = "Queue"
        Action    = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
        Resource  = [local.export_queue_arn]
        Condition = null
        when      = true
      },
    ]
    compactor = [
      {
        Sid       = "Datasets"
        Action    = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
        Resource  = ["${local.bucket_arn}/datasets/*"]
        Condition = null
        when      = true
      },
      {
        Sid       = "Heartbeat"
        Action    = ["s3:GetObject"]
        Resource  = ["${local.bucket_arn}/heartbeat/*"]
        Condition = null
        when      = true
      },
      {
        Sid       = "Bucket"
        Action    = ["s3:ListBucket"]
        Resource  = [local.bucket_arn]
        Condition = null
        when      = true
      },
    ]
    # It reads everything, and writes nothing but its reports, with which sample is next.
    verifier = [
      {
        Sid       = "Tables"
        Action    = ["dynamodb:BatchGetItem", "dynamodb:DescribeContinuousBackups", "dynamodb:DescribeTable", "dynamodb:Scan"]
        Resource  = concat([local.state_table_arn], values(local.table_arns))
        Condition = null
        when      = true
      },
      {
        Sid       = "Datasets"
        Action    = ["s3:GetObject"]
        Resource  = ["${local.bucket_arn}/datasets/*", "${local.bucket_arn}/heartbeat/*"]
        Condition = null
        when      = local.has_archive
      },
      {
        Sid       = "Rotation"
        Action    = ["s3:GetObject"]
        Resource  = ["${local.bucket_arn}/reports/rotation.json"]
        Condition = null
        when      = local.has_archive
      },
      {
        Sid       = "Reports"
        Action    = ["s3:PutObject"]
        Resource  = ["${local.bucket_arn}/reports/*"]
        Condition = null
        when      = local.has_archive
      },
      {
        # To distinguish a version that does not exist yet from a forbidden one.
        Sid       = "Bucket"
        Action    = ["s3:ListBucket"]
        Resource  = [local.bucket_arn]
        Condition = null
        when      = local.has_archive
      },
    ]
  }

  common_statements = {
    for function in keys(local.deployed) : function => [
      {
        Sid       = "Logs"
        Action    = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource  = ["arn:${local.partition}:logs:${local.region}:${local.account}:log-group:/aws/lambda/${var.name}-${function}:*"]
        Condition = null
        when      = true
      },
      {
        # X-Ray has no resources.
        Sid       = "Tracing"
        Action    = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
        Resource  = ["*"]
        Condition = null
        when      = var.tracing_mode == "Active"
      },
      {
        # Lambda calls these, and they have no resources that are known beforehand.
        Sid = "Network"
        Action = [
          "ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface",
          "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
        ]
        Resource  = ["*"]
        Condition = null
        when      = local.in_vpc[function]
      },
    ]
  }

  policies = {
    for function in keys(local.deployed) : function => {
      Version = "2012-10-17"
      Statement = [
        for statement in concat(local.function_statements[function], local.common_statements[function], local.key_statements[function]) : {
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
}

resource "aws_iam_role" "function" {
  for_each = local.deployed

  name                 = "${var.name}-${each.key}"
  path                 = var.role_path
  permissions_boundary = var.role_permissions_boundary
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "lambda.amazonaws.com" } }]
  })
}

resource "aws_iam_role_policy" "function" {
  for_each = local.deployed

  name   = each.key
  role   = aws_iam_role.function[each.key].name
  policy = jsonencode(local.policies[each.key])

  lifecycle {
    precondition {
      condition     = length(jsonencode(local.policies[each.key])) <= 10240
      error_message = "The policy of ${each.key} exceeds the 10,240 characters of a role's policies: the model has too many tables for one function."
    }
  }
}

# --- The delivery stream ---

resource "aws_iam_role" "firehose" {
  count = local.has_archive ? 1 : 0

  name                 = "${var.name}-firehose"
  path                 = var.role_path
  permissions_boundary = var.role_permissions_boundary
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "firehose.amazonaws.com" }
      Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
    }]
  })
}

resource "aws_iam_role_policy" "firehose" {
  count = local.has_archive ? 1 : 0

  name = "firehose"
  role = aws_iam_role.firehose[0].name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat([
      {
        Sid      = "Objects"
        Effect   = "Allow"
        Action   = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"]
        Resource = ["${local.bucket_arn}/archive/*", "${local.bucket_arn}/archive-errors/*"]
      },
      {
        Sid      = "Bucket"
        Effect   = "Allow"
        Action   = ["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"]
        Resource = [local.bucket_arn]
      },
      {
        Sid      = "Logs"
        Effect   = "Allow"
        Action   = ["logs:PutLogEvents"]
        Resource = ["arn:${local.partition}:logs:${local.region}:${local.account}:log-group:/aws/kinesisfirehose/${local.firehose_name}:*"]
      },
      ], [for key in compact([var.kms_key_arn]) : {
        # The objects that it writes.
        Sid       = "Encryption"
        Effect    = "Allow"
        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource  = [key]
        Condition = { StringEquals = { "kms:ViaService" = ["s3.${local.service_suffix}"] } }
    }])
  })
}
