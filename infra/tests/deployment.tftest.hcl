# The resources that are deployed by default, and with each option.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }
  mock_data "aws_region" {
    defaults = { id = "eu-west-1" }
  }
  mock_resource "aws_s3_bucket" {
    defaults = { arn = "arn:aws:s3:::bucket" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-west-1:123456789012:queue", url = "https://sqs.eu-west-1.amazonaws.com/123456789012/queue" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/role" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-west-1:123456789012:key/1234" }
  }
  mock_resource "aws_secretsmanager_secret" {
    defaults = { arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:cache" }
  }
  mock_resource "aws_lambda_alias" {
    defaults = { arn = "arn:aws:lambda:eu-west-1:123456789012:function:function:live" }
  }
  mock_resource "aws_lambda_function" {
    defaults = { qualified_arn = "arn:aws:lambda:eu-west-1:123456789012:function:function:1" }
  }
  mock_resource "aws_dynamodb_table" {
    defaults = {
      arn        = "arn:aws:dynamodb:eu-west-1:123456789012:table/table"
      stream_arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/table/stream/2026-02-06T10:00:00.000"
    }
  }
  # The table as the model exambuddy needs it.
  mock_data "aws_dynamodb_table" {
    defaults = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000"
      stream_enabled   = true
      stream_view_type = "NEW_AND_OLD_IMAGES"
      hash_key         = "PK"
      range_key        = "SK"
      attribute        = [{ name = "PK", type = "S" }, { name = "SK", type = "S" }, { name = "GSI1PK", type = "S" }, { name = "GSI1SK", type = "S" }]
      replica          = []
      global_secondary_index = [{
        name               = "GSI1", hash_key = "GSI1PK", range_key = "GSI1SK", projection_type = "ALL"
        non_key_attributes = [], read_capacity = 0, write_capacity = 0, on_demand_throughput = []
      }]
    }
  }
}

variables {
  name              = "exams"
  model_description = "tests/exambuddy.json"
  package_s3        = { bucket = "packages", prefix = "1/" }
}


run "the_defaults" {
  # An existing table with two readers.
  assert {
    condition     = keys(aws_lambda_event_source_mapping.stream) == ["aggregator/ExamBuddyTable", "relay/ExamBuddyTable"]
    error_message = "The stream has two readers: aggregator and relay."
  }
  assert {
    condition = alltrue([
      for mapping in values(aws_lambda_event_source_mapping.stream) :
      mapping.event_source_arn == "arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000" &&
      mapping.starting_position == "TRIM_HORIZON" && mapping.batch_size == 1000 && mapping.maximum_batching_window_in_seconds == 5 &&
      mapping.function_response_types == toset(["ReportBatchItemFailures"]) && mapping.bisect_batch_on_function_error &&
      mapping.maximum_retry_attempts == 20 && mapping.maximum_record_age_in_seconds == 21600 && mapping.parallelization_factor == 1 &&
      mapping.destination_config[0].on_failure[0].destination_arn == aws_s3_bucket.failures.arn &&
      mapping.metrics_config[0].metrics == toset(["EventCount"])
    ])
    error_message = "The mappings lose nothing while they start, redeliver from the failed record, are bounded, and keep failed records in S3."
  }
  assert {
    condition     = toset([for filter in one(aws_lambda_event_source_mapping.stream["aggregator/ExamBuddyTable"].filter_criteria).filter : filter.pattern]) == toset(jsondecode(file("tests/exambuddy.json")).filters.ExamBuddyTable.aggregate)
    error_message = "Only keys of the model's entities invoke aggregator."
  }
  assert {
    condition     = length(aws_lambda_event_source_mapping.stream["relay/ExamBuddyTable"].filter_criteria) == 0
    error_message = "The archive has every change."
  }
  assert {
    condition     = keys(aws_lambda_function.function) == ["aggregator", "compactor", "exporter", "relay", "verifier"]
    error_message = "Without a distribution there is no invalidator."
  }
  assert {
    condition = alltrue([
      for function in values(aws_lambda_function.function) :
      function.runtime == "provided.al2023" && function.architectures == tolist(["arm64"]) && function.tracing_config[0].mode == "Active" && function.logging_config[0].log_format == "JSON"
    ])
    error_message = "The functions run on arm64, are traced, and log JSON."
  }
  assert {
    condition = aws_lambda_function.function["aggregator"].environment[0].variables == tomap({
      AFTERWRITE_MODEL             = "/var/task/model.toml"
      AFTERWRITE_ON_POISON         = "park"
      AFTERWRITE_PROJECTIONS       = "aggregate"
      AFTERWRITE_STATE_TABLE       = "exams-state"
      POWERTOOLS_METRICS_NAMESPACE = "Afterwrite"
      POWERTOOLS_SERVICE_NAME      = "exams"
    })
    error_message = "The environment of aggregator."
  }
  assert {
    condition = aws_lambda_function.function["relay"].environment[0].variables == tomap({
      AFTERWRITE_BUCKET            = "exams-123456789012-eu-west-1"
      AFTERWRITE_FIREHOSE_STREAM   = "exams-archive"
      AFTERWRITE_MODEL             = "/var/task/model.toml"
      AFTERWRITE_PROJECTIONS       = "archive"
      POWERTOOLS_METRICS_NAMESPACE = "Afterwrite"
      POWERTOOLS_SERVICE_NAME      = "exams"
    })
    error_message = "The environment of relay."
  }
  assert {
    condition     = aws_lambda_function.function["compactor"].ephemeral_storage[0].size == 10240 && aws_lambda_function.function["compactor"].timeout == 900
    error_message = "The compactor has time and temporary storage."
  }
  assert {
    condition     = length(aws_dynamodb_table.source) == 0
    error_message = "An existing table is not created."
  }

  # The state table.
  assert {
    condition = (
      aws_dynamodb_table.state[0].billing_mode == "PAY_PER_REQUEST" && !coalesce(aws_dynamodb_table.state[0].stream_enabled, false) &&
      one(aws_dynamodb_table.state[0].ttl).attribute_name == "expires_at" && aws_dynamodb_table.state[0].point_in_time_recovery[0].enabled &&
      one(aws_dynamodb_table.state[0].global_secondary_index).name == "parked" && aws_dynamodb_table.state[0].deletion_protection_enabled
    )
    error_message = "The state table has no stream, TTL, recovery, the index of parked items, and is protected."
  }

  # The buckets are private and encrypted.
  assert {
    condition     = alltrue([for block in values(aws_s3_bucket_public_access_block.bucket) : block.block_public_acls && block.block_public_policy && block.ignore_public_acls && block.restrict_public_buckets])
    error_message = "Nothing is public."
  }
  assert {
    condition     = keys(aws_s3_bucket_server_side_encryption_configuration.bucket) == ["archive", "failures"]
    error_message = "Both buckets are encrypted."
  }
  assert {
    condition     = alltrue([for policy in [aws_s3_bucket_policy.archive[0].policy, aws_s3_bucket_policy.failures.policy] : anytrue([for statement in jsondecode(policy).Statement : statement.Effect == "Deny" && statement.Condition == { Bool = { "aws:SecureTransport" = "false" } }])])
    error_message = "Both buckets refuse requests without TLS."
  }
  assert {
    condition     = !anytrue([for rule in aws_s3_bucket_lifecycle_configuration.archive[0].rule : try(startswith(rule.filter[0].prefix, "datasets"), false)])
    error_message = "No lifecycle rule touches the datasets."
  }
  assert {
    condition     = one(aws_s3_bucket_lifecycle_configuration.failures.rule).expiration[0].days == 14
    error_message = "Failed records are short-lived."
  }

  # Archive and datasets.
  assert {
    condition     = aws_kinesis_firehose_delivery_stream.archive[0].extended_s3_configuration[0].prefix == "archive/dt=!{timestamp:yyyy-MM-dd}/hh=!{timestamp:HH}/" && aws_kinesis_firehose_delivery_stream.archive[0].extended_s3_configuration[0].compression_format == "GZIP"
    error_message = "The archive's layout."
  }
  assert {
    condition     = aws_s3_bucket_notification.archive[0].queue[0].filter_prefix == "archive/"
    error_message = "The exporter is notified of archived objects alone."
  }
  assert {
    condition     = aws_sqs_queue.export[0].visibility_timeout_seconds == 6 * aws_lambda_function.function["exporter"].timeout && aws_lambda_event_source_mapping.exporter[0].scaling_config[0].maximum_concurrency == 16
    error_message = "Messages outlast the function; 16 exporters run at once."
  }
  assert {
    condition     = keys(aws_glue_catalog_table.delta) == ["answers", "answers_log", "attempts", "attempts_log", "projects", "projects_log", "questions", "questions_log", "users", "users_log"]
    error_message = "Each dataset has two tables."
  }
  assert {
    condition     = aws_glue_catalog_table.delta["attempts_log"].storage_descriptor[0].location == "s3://exams-123456789012-eu-west-1/datasets/attempts_log/"
    error_message = "The location of a table."
  }
  assert {
    condition     = contains(keys(aws_athena_named_query.saved), "pass_rate_by_week") && contains(keys(aws_athena_named_query.saved), "create_view_attempts_now")
    error_message = "Queries and views are saved."
  }
  assert {
    condition     = aws_scheduler_schedule.schedule["compaction"].schedule_expression == "rate(1 hour)" && aws_scheduler_schedule.schedule["compaction"].target[0].input == "{}"
    error_message = "The compactor runs every hour, for all datasets."
  }

  # Queries of the logs are saved.
  assert {
    condition     = keys(aws_cloudwatch_query_definition.saved) == ["errors", "runs"] && alltrue([for query in values(aws_cloudwatch_query_definition.saved) : length(query.log_group_names) == 5])
    error_message = "Two queries, each of all functions' logs."
  }

  # A heartbeat shows that every stage lives.
  assert {
    condition     = aws_scheduler_schedule.schedule["heartbeat"].schedule_expression == "rate(1 minute)" && aws_scheduler_schedule.schedule["heartbeat"].target[0].input == "{\"afterwrite\":\"heartbeat\"}"
    error_message = "A schedule requests it from aggregator."
  }
  assert {
    condition     = [for statement in jsondecode(aws_iam_role_policy.function["aggregator"].policy).Statement : statement.Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] if statement.Sid == "Mirrors0"] == [["ADMIN#*", "AFTERWRITE#HEARTBEAT"]]
    error_message = "aggregator writes heartbeats and mirrored items, and nothing else of the table."
  }
  assert {
    condition     = alltrue([for stage in ["counted", "archived", "exported", "queryable"] : aws_cloudwatch_metric_alarm.alarm["freshness-${stage}"].treat_missing_data == "breaching" && aws_cloudwatch_metric_alarm.alarm["freshness-${stage}"].dimensions == tomap({ service = "exams", Model = "exambuddy", stage = stage })])
    error_message = "A stage that reports nothing is reported."
  }

  # With a verifier.
  assert {
    condition = aws_lambda_function.function["verifier"].environment[0].variables == tomap({
      AFTERWRITE_BUCKET            = "exams-123456789012-eu-west-1"
      AFTERWRITE_MODEL             = "/var/task/model.toml"
      AFTERWRITE_STATE_TABLE       = "exams-state"
      POWERTOOLS_METRICS_NAMESPACE = "Afterwrite"
      POWERTOOLS_SERVICE_NAME      = "exams"
    })
    error_message = "The environment of verifier."
  }
  assert {
    condition     = aws_scheduler_schedule.schedule["verification"].schedule_expression == "rate(1 day)" && jsondecode(aws_scheduler_schedule.schedule["verification"].target[0].input) == { verify = { sample = 0.01 } }
    error_message = "A sample is verified every day."
  }
  assert {
    condition = length([
      for statement in jsondecode(aws_iam_role_policy.function["verifier"].policy).Statement : statement
      if length(setintersection(toset(statement.Action), toset(["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "s3:DeleteObject"]))) > 0
    ]) == 0
    error_message = "The verifier changes nothing."
  }
  assert {
    condition     = alltrue([for function in values(aws_lambda_function.function) : function.reserved_concurrent_executions == -1])
    error_message = "Without a distribution, no function reserves concurrency: the quota of a new account allows none."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.alarm["drift"].metric_name == "DriftedTargets" && aws_cloudwatch_metric_alarm.alarm["drift"].threshold == 0 && !contains(keys(aws_cloudwatch_metric_alarm.alarm), "duration-verifier")
    error_message = "Drift is in alarm; a long run is not."
  }

  # Nothing of a bulk backfill unless it is asked for.
  assert {
    condition     = length(aws_lambda_function.bulk) + length(aws_sfn_state_machine.bulk) + length(aws_iam_role.bulk) + length(aws_iam_role.bulk_machine) == 0
    error_message = "The bulk backfill is optional."
  }
}

run "a_distribution_and_rare_schedules" {
  variables {
    cloudfront_distribution_id = "E2QWRUHAPOMQZL"
    tracing_mode               = "PassThrough"
    redrive_principal_arns     = ["arn:aws:iam::123456789012:role/redrive"]
    alarm_actions              = ["arn:aws:sns:eu-west-1:123456789012:on-call"]
    heartbeat_schedule         = "rate(1 hour)"
    compaction_schedule        = "rate(6 hours)"
    model                      = "exambuddy"
    tables                     = { ExamBuddyTable = { name = "prod-exams" } }
  }

  # Permissions are exact.
  assert {
    condition = alltrue(flatten([
      for policy in values(aws_iam_role_policy.function) : [
        for statement in jsondecode(policy.policy).Statement : [
          for text in concat(statement.Action, statement.Resource) : text != "*" && !endswith(text, ":*") || startswith(text, "arn:aws:logs:")
        ]
      ]
    ]))
    error_message = "No statement allows all actions or all resources."
  }
  assert {
    condition = [
      for statement in jsondecode(aws_iam_role_policy.function["aggregator"].policy).Statement : statement.Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] if statement.Sid == "LedgerAndRollups"
    ] == [["LEDGER#*", "LOOKUP#*", "ADMIN#*", "PROJECT#*"]]
    error_message = "In the state table, aggregator reaches the ledger, lookups and rollups of the model."
  }
  assert {
    condition = [
      for statement in jsondecode(aws_iam_role_policy.function["aggregator"].policy).Statement : sort(statement.Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]) if statement.Sid == "SourceItems0"
    ][0] == tolist(["ADMIN#*", "ATTEMPT#*", "CANDIDATE#*", "PROJECT#*", "USER#*"])
    error_message = "In the source table, aggregator reads items of the model's entities."
  }
  assert {
    condition = [
      for statement in jsondecode(aws_iam_policy.redrive.policy).Statement : statement.Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] if contains(statement.Action, "dynamodb:PutItem")
    ] == [["AFTERWRITE#JOB#*", "LEDGER#*", "LOOKUP#*", "ADMIN#*", "PROJECT#*"]]
    error_message = "Redrive writes its jobs, and what aggregator writes."
  }
  assert {
    condition     = [for statement in jsondecode(aws_iam_role_policy.function["aggregator"].policy).Statement : statement.Resource if statement.Sid == "Lookups"] == [["arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/index/GSI1"]]
    error_message = "aggregator queries the indexes of the lookups."
  }
  assert {
    condition     = !anytrue([for statement in jsondecode(aws_iam_role_policy.function["relay"].policy).Statement : anytrue([for action in statement.Action : contains(["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:BatchGetItem"], action)])])
    error_message = "relay neither reads nor writes items."
  }
  assert {
    condition     = [for statement in jsondecode(aws_iam_role_policy.function["invalidator"].policy).Statement : statement.Resource if statement.Sid == "Invalidations"] == [["arn:aws:cloudfront::123456789012:distribution/E2QWRUHAPOMQZL"]]
    error_message = "invalidator reaches one distribution."
  }

  # Failed records are readable by redrive alone.
  assert {
    condition = [for statement in jsondecode(aws_s3_bucket_policy.failures.policy).Statement : statement.Condition.ArnNotLike if statement.Sid == "ReadableByRedriveAlone"] == [
      { "aws:PrincipalArn" = ["arn:aws:iam::123456789012:role/redrive"] },
    ]
    error_message = "Everyone but the named role is denied."
  }

  # Alarms name the runbook.
  assert {
    condition     = alltrue([for alarm in values(aws_cloudwatch_metric_alarm.alarm) : can(regex("docs/RUNBOOK\\.md#[a-z-]+$", alarm.alarm_description)) && alarm.alarm_actions == toset(["arn:aws:sns:eu-west-1:123456789012:on-call"])])
    error_message = "Each alarm notifies, and names its paragraph."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.alarm["parked"].dimensions == tomap({ service = "exams", Function = "aggregator", Model = "exambuddy" }) && aws_cloudwatch_metric_alarm.alarm["parked"].namespace == "Afterwrite"
    error_message = "The dimensions of the functions' own metrics."
  }

  # Schedules that are rare have longer periods.
  assert {
    condition = { for stage in ["counted", "archived", "exported", "queryable"] : stage => [aws_cloudwatch_metric_alarm.alarm["freshness-${stage}"].period, aws_cloudwatch_metric_alarm.alarm["freshness-${stage}"].evaluation_periods, aws_cloudwatch_metric_alarm.alarm["freshness-${stage}"].datapoints_to_alarm] } == {
      counted = [3600, 2, 2], archived = [3600, 2, 2], exported = [3600, 3, 3], queryable = [21600, 3, 3]
    }
    error_message = "Each period of a healthy stage has a value."
  }
  assert {
    condition     = alltrue([for name, alarm in aws_cloudwatch_metric_alarm.alarm : alarm.treat_missing_data == "breaching" if startswith(name, "freshness-")])
    error_message = "A stage that reports nothing is reported."
  }

  # The settings of the command line are lines of a shell.
  assert {
    condition = toset(compact(split("\n", output.cli_exports))) == toset([
      "export AFTERWRITE_BUCKET='exams-123456789012-eu-west-1'",
      "export AFTERWRITE_CDN_QUEUE='https://sqs.eu-west-1.amazonaws.com/123456789012/queue'",
      "export AFTERWRITE_FIREHOSE_STREAM='exams-archive'",
      "export AFTERWRITE_MODEL='exambuddy'",
      "export AFTERWRITE_STATE_TABLE='exams-state'",
      "export AFTERWRITE_TABLES='ExamBuddyTable=prod-exams'",
      "export AWS_DEFAULT_REGION='eu-west-1'",
      "export AWS_REGION='eu-west-1'",
    ])
    error_message = "Everything that the command line needs, apart from credentials."
  }
}

run "caches_and_a_bulk_backfill" {
  variables {
    cache_url                  = "rediss://cache:6379"
    cache_cluster              = true
    cloudfront_distribution_id = "E2QWRUHAPOMQZL"
    vpc_subnet_ids             = ["subnet-1"]
    vpc_security_group_ids     = ["sg-1"]
    stream_filters             = { ExamBuddyTable = [] }
    compaction_schedule        = "rate(6 days)"
    bulk_backfill              = true
    bulk_concurrency           = 50
  }

  # Caches and paths.
  assert {
    condition = { for name in ["AFTERWRITE_CACHE_URL", "AFTERWRITE_CACHE_CLUSTER", "AFTERWRITE_PROJECTIONS"] : name => aws_lambda_function.function["relay"].environment[0].variables[name] } == {
      AFTERWRITE_CACHE_URL = "rediss://cache:6379", AFTERWRITE_CACHE_CLUSTER = "true", AFTERWRITE_PROJECTIONS = "invalidate,archive"
    }
    error_message = "relay removes cache keys."
  }
  assert {
    condition     = aws_lambda_function.function["relay"].environment[0].variables["AFTERWRITE_CDN_QUEUE"] == aws_sqs_queue.cdn[0].url
    error_message = "relay sends paths to the queue."
  }
  assert {
    condition     = [for function, deployed in aws_lambda_function.function : function if length(deployed.vpc_config) > 0] == ["relay"]
    error_message = "Only the function that reaches the cache is in the VPC."
  }
  assert {
    condition     = aws_lambda_function.function["invalidator"].reserved_concurrent_executions == 1 && aws_lambda_event_source_mapping.invalidator[0].batch_size == 1000 && aws_lambda_event_source_mapping.invalidator[0].maximum_batching_window_in_seconds == 20
    error_message = "One invalidator folds the paths of a window."
  }
  assert {
    condition     = aws_sqs_queue.cdn[0].visibility_timeout_seconds > aws_lambda_function.function["invalidator"].timeout
    error_message = "A returned message reappears after the function's timeout."
  }

  # Every record is delivered if the filters are empty.
  assert {
    condition     = alltrue([for mapping in values(aws_lambda_event_source_mapping.stream) : length(mapping.filter_criteria) == 0])
    error_message = "An empty list removes the model's patterns."
  }

  # Periods are at most a day and evaluations at most seven.
  assert {
    condition = (
      aws_cloudwatch_metric_alarm.alarm["freshness-queryable"].period == 86400 && aws_cloudwatch_metric_alarm.alarm["freshness-queryable"].evaluation_periods == 7 &&
      aws_cloudwatch_metric_alarm.alarm["freshness-queryable"].datapoints_to_alarm == 7 && aws_cloudwatch_metric_alarm.alarm["freshness-queryable"].treat_missing_data == "breaching"
    )
    error_message = "CloudWatch evaluates up to seven days."
  }

  # A bulk backfill.
  assert {
    condition     = aws_lambda_function.bulk["worker"].s3_key == "1/exporter.zip" && aws_lambda_function.bulk["worker"].timeout == 900
    error_message = "The worker is the exporter's zip."
  }
  assert {
    condition = alltrue([
      for phase in ["Lookups", "Items", "Reduce"] :
      jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States[phase].MaxConcurrency == 50
      && jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States[phase].ItemReader.Parameters["Key.$"] == "$.planned.plan.${lower(phase)}"
    ])
    error_message = "Each phase reads the requests that the plan has written."
  }
  assert {
    # Every state that is named exists.
    condition = alltrue([
      for state in values(jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States) :
      contains(keys(jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States), try(state.Next, "Plan"))
      && alltrue([for choice in try(state.Choices, []) : contains(keys(jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States), choice.Next)])
    ])
    error_message = "A state names another one that the machine does not have."
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.bulk["worker"].policy).Statement :
      !contains(statement.Resource, "*") && (!contains(statement.Action, "dynamodb:PutItem") || jsonencode(try(statement.Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"], [])) == jsonencode(["LOOKUP#*"]))
    ])
    error_message = "The worker writes remembered lookups only."
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.bulk_machine["worker"].policy).Statement :
      !contains(statement.Action, "dynamodb:ImportTable") || jsonencode(statement.Resource) == jsonencode(["arn:aws:dynamodb:eu-west-1:123456789012:table/exams-state-*"])
    ])
    error_message = "The machine creates tables named after the state table only."
  }
  assert {
    condition = anytrue([
      for statement in jsondecode(aws_iam_role_policy.bulk_machine["worker"].policy).Statement :
      jsonencode(statement.Action) == jsonencode(["states:RedriveExecution"]) && jsonencode(statement.Resource) == jsonencode(["arn:aws:states:eu-west-1:123456789012:execution:exams-bulk/*"])
    ])
    error_message = "A redrive continues the executions of the map runs."
  }
  assert {
    condition = alltrue([
      for state in values(jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States) : try(state.Retry[0].MaxAttempts, 0) == 4 if state.Type == "Task"
    ])
    error_message = "Each task is repeated four times."
  }
  assert {
    condition = (
      jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States.TimeToLive.Next == "Protection" &&
      jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States.Protection.Parameters.DeletionProtectionEnabled
    )
    error_message = "The new table is protected from deletion, as the state table is."
  }
  assert {
    condition     = !can(jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States.Import.Parameters.TableCreationParameters.SseSpecification)
    error_message = "Without a key, DynamoDB encrypts with its own."
  }
}

run "a_key_and_a_secret" {
  variables {
    cache_url_secret_arn        = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:cache-a1b2c3"
    kms_key_arn                 = "arn:aws:kms:eu-west-1:123456789012:key/1"
    cloudfront_distribution_id  = "E2QWRUHAPOMQZL"
    stream_filters              = { ExamBuddyTable = ["{\"dynamodb\":{\"Keys\":{\"PK\":{\"S\":[{\"prefix\":\"ADMIN#\"}]}}}}"] }
    heartbeat_schedule          = "cron(0/10 * * * ? *)"
    compaction_schedule         = "rate(7 days)"
    bulk_backfill               = true
    deletion_protection_enabled = false
  }

  # The address of the cache in a secret.
  assert {
    condition     = aws_lambda_function.function["relay"].environment[0].variables["AFTERWRITE_CACHE_SECRET"] == "arn:aws:secretsmanager:eu-west-1:123456789012:secret:cache-a1b2c3" && !contains(keys(aws_lambda_function.function["relay"].environment[0].variables), "AFTERWRITE_CACHE_URL")
    error_message = "relay reads the secret when it starts."
  }
  assert {
    condition     = [for statement in jsondecode(aws_iam_role_policy.function["relay"].policy).Statement : statement.Resource if statement.Sid == "CacheAddress"] == [["arn:aws:secretsmanager:eu-west-1:123456789012:secret:cache-a1b2c3"]]
    error_message = "relay may read this secret alone."
  }
  assert {
    condition     = !anytrue([for function in ["aggregator", "exporter", "compactor"] : strcontains(aws_iam_role_policy.function[function].policy, "secretsmanager")])
    error_message = "No other function may read it."
  }

  # The key is used through the services that a role calls.
  assert {
    condition = jsonencode({
      for function, policy in aws_iam_role_policy.function : function => sort([
        for statement in jsondecode(policy.policy).Statement : "${statement.Sid} ${join(" ", sort([for service in statement.Condition.StringEquals["kms:ViaService"] : split(".", service)[0]]))}"
        if startswith(statement.Action[0], "kms:")
      ])
      }) == jsonencode({
      aggregator  = ["Decrypt dynamodb lambda", "GenerateDataKey dynamodb s3"]
      relay       = ["Decrypt dynamodb lambda secretsmanager sqs", "GenerateDataKey firehose s3 sqs"]
      invalidator = ["Decrypt lambda sqs"]
      exporter    = ["Decrypt dynamodb lambda s3 sqs", "GenerateDataKey s3"]
      compactor   = ["Decrypt lambda s3", "GenerateDataKey s3"]
      verifier    = ["Decrypt dynamodb lambda s3", "GenerateDataKey s3"]
    })
    error_message = "Each function uses the key through the services that it reads and writes."
  }
  assert {
    condition = alltrue([
      for policy in concat(values(aws_iam_role_policy.function)[*].policy, [aws_iam_policy.redrive.policy, aws_iam_role_policy.firehose[0].policy]) : alltrue([
        for statement in jsondecode(policy).Statement : statement.Resource == ["arn:aws:kms:eu-west-1:123456789012:key/1"] && alltrue([for service in statement.Condition.StringEquals["kms:ViaService"] : endswith(service, ".eu-west-1.amazonaws.com")])
        if startswith(statement.Action[0], "kms:")
      ])
    ])
    error_message = "It is this key, and never without a service in between."
  }

  # Filters are encrypted if there is a key.
  assert {
    condition     = alltrue([for mapping in values(aws_lambda_event_source_mapping.stream) : mapping.kms_key_arn == "arn:aws:kms:eu-west-1:123456789012:key/1" && length(one(mapping.filter_criteria).filter) == 1])
    error_message = "The mappings filter, and the patterns are encrypted."
  }
  assert {
    condition     = alltrue([for configuration in values(aws_s3_bucket_server_side_encryption_configuration.bucket) : one(configuration.rule).apply_server_side_encryption_by_default[0].sse_algorithm == "aws:kms"])
    error_message = "The buckets are encrypted with the key."
  }

  # Values alone are judged if it is unknown when the next is due.
  assert {
    condition = alltrue([
      for name, alarm in aws_cloudwatch_metric_alarm.alarm : alarm.treat_missing_data == "notBreaching" && alarm.evaluation_periods == 1 && alarm.datapoints_to_alarm == 1
      if startswith(name, "freshness-")
    ])
    error_message = "Missing data is not a failure."
  }

  # A bulk backfill with a key and without protection.
  assert {
    condition = jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States.Import.Parameters.TableCreationParameters.SseSpecification == {
      Enabled = true, SseType = "KMS", KmsMasterKeyId = "arn:aws:kms:eu-west-1:123456789012:key/1"
    }
    error_message = "The new table is encrypted with the key."
  }
  assert {
    condition     = anytrue([for statement in jsondecode(aws_iam_role_policy.bulk_machine["worker"].policy).Statement : contains(statement.Action, "kms:CreateGrant") && statement.Resource == ["arn:aws:kms:eu-west-1:123456789012:key/1"]])
    error_message = "DynamoDB uses the key by a grant that the machine's role creates."
  }
  assert {
    condition     = jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States.TimeToLive.Next == "Recovery" && !can(jsondecode(aws_sfn_state_machine.bulk["worker"].definition).States.Protection)
    error_message = "The new table is not protected, as the state table is not."
  }
}

run "one_reader_without_a_verifier" {
  variables {
    create_tables              = true
    single_reader              = true
    cloudfront_distribution_id = "E2QWRUHAPOMQZL"
    tables                     = { ExamBuddyTable = { name = "exams-table", former_names = ["exams-2025"], replicas = ["us-east-1"], ttl_attribute = "expires_at" } }
    verify_schedule            = null
  }

  # One reader hosts everything.
  assert {
    condition     = keys(aws_lambda_event_source_mapping.stream) == ["aggregator/ExamBuddyTable"]
    error_message = "A global table's stream has one reader."
  }
  assert {
    condition     = aws_lambda_function.function["aggregator"].environment[0].variables["AFTERWRITE_PROJECTIONS"] == "aggregate,invalidate,archive" && aws_lambda_function.function["aggregator"].environment[0].variables["AFTERWRITE_TABLES"] == "ExamBuddyTable=exams-table,ExamBuddyTable=exams-2025"
    error_message = "It hosts all projections, and knows the table's names, the current one first."
  }
  assert {
    condition     = length([for statement in jsondecode(aws_iam_role_policy.function["aggregator"].policy).Statement : statement if contains(["Archive", "LongLines", "StalePaths", "LedgerAndRollups"], statement.Sid)]) == 4
    error_message = "It may do what both functions may."
  }
  assert {
    condition = (
      aws_dynamodb_table.source["ExamBuddyTable"].hash_key == "PK" && aws_dynamodb_table.source["ExamBuddyTable"].range_key == "SK" &&
      aws_dynamodb_table.source["ExamBuddyTable"].stream_view_type == "NEW_AND_OLD_IMAGES" &&
      one(aws_dynamodb_table.source["ExamBuddyTable"].global_secondary_index).hash_key == "GSI1PK" &&
      one(aws_dynamodb_table.source["ExamBuddyTable"].global_secondary_index).range_key == "GSI1SK" &&
      one(aws_dynamodb_table.source["ExamBuddyTable"].replica).region_name == "us-east-1"
    )
    error_message = "The table has the keys and the index that the model needs."
  }

  # Without a verifier.
  assert {
    condition     = !contains(keys(aws_lambda_function.function), "verifier") && !contains(keys(aws_scheduler_schedule.schedule), "verification") && !contains(keys(aws_cloudwatch_metric_alarm.alarm), "drift")
    error_message = "There is neither a function nor an alarm."
  }

  # A model without levels has no stream of the state table.
  assert {
    condition     = aws_dynamodb_table.state[0].stream_enabled == null && output.state_stream_arn == null
    error_message = "Nothing reads the state table."
  }
}

run "several_tables_without_a_heartbeat" {
  variables {
    model_description  = "tests/quiz.json"
    create_tables      = true
    heartbeat_schedule = null
  }

  # A model of several tables.
  assert {
    condition     = length(aws_dynamodb_table.source) == 5 && length(aws_lambda_event_source_mapping.stream) == 10
    error_message = "Each of five tables has two readers."
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.function["aggregator"].policy).Statement : !contains(keys(statement), "Condition") && length(statement.Resource) == 1 if startswith(statement.Sid, "SourceItems")
    ])
    error_message = "Keys that begin with a variable cannot be narrowed."
  }
  assert {
    condition     = aws_dynamodb_table.source["quiz-users"].range_key == null
    error_message = "A table may have no sort key."
  }

  # Without a heartbeat.
  assert {
    condition     = keys(aws_scheduler_schedule.schedule) == ["compaction", "verification"] && length([for name in keys(aws_cloudwatch_metric_alarm.alarm) : name if startswith(name, "freshness")]) == 0
    error_message = "There is neither a schedule nor an alarm."
  }
}

run "without_an_archive_and_events" {
  variables {
    create_archive = false
    # A model without events has no target.
    events_arn = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"
  }
  assert {
    condition     = keys(aws_lambda_function.function) == ["aggregator", "verifier"] && length(aws_kinesis_firehose_delivery_stream.archive) == 0 && keys(aws_scheduler_schedule.schedule) == ["heartbeat", "verification"]
    error_message = "What remains is the aggregator, with its heartbeat, and the verifier."
  }
  assert {
    condition     = !contains(keys(aws_lambda_function.function), "invalidator")
    error_message = "Without events and a distribution, there is no queue."
  }
}

# --- A table of the same configuration ---

run "a_table_of_the_same_configuration_is_planned_before_it_exists" {
  command = plan
  module {
    source = "./tests/same-configuration"
  }
  assert {
    condition     = keys(output.stream_arns) == ["ExamBuddyTable"]
    error_message = "The stream is known when the table exists."
  }
}

run "a_table_of_the_same_configuration_is_created_with_the_deployment" {
  module {
    source = "./tests/same-configuration"
  }
  assert {
    condition     = output.stream_arns.ExamBuddyTable == "arn:aws:dynamodb:eu-west-1:123456789012:table/table/stream/2026-02-06T10:00:00.000"
    error_message = "The mapping has the stream of the table."
  }
  assert {
    condition     = output.table_names.ExamBuddyTable == "table" && output.environment.AFTERWRITE_TABLES == "ExamBuddyTable=table"
    error_message = "The deployed name follows from the stream."
  }
}

run "a_table_of_the_same_configuration_is_replaced" {
  command = plan
  module {
    source = "./tests/same-configuration"
  }
  variables {
    revision = 2
    is_named = true
  }
  assert {
    condition     = output.table_names.ExamBuddyTable == "table"
    error_message = "The stream is unknown again, and the given name is used."
  }
}

run "the_mapping_of_a_replaced_table_has_its_new_stream" {
  module {
    source = "./tests/same-configuration"
  }
  variables {
    revision = 2
  }
  assert {
    condition     = endswith(output.stream_arns.ExamBuddyTable, "/stream/2026-02-06T10:00:00.000")
    error_message = "The mapping has the stream of the new table."
  }
}

# --- What is used after the deployment ---

run "the_functions_have_the_architecture_of_the_zips" {
  command = plan
  variables {
    model_description = "tests/no-rollups-x86-64.json"
  }
  assert {
    condition     = alltrue([for function in values(aws_lambda_function.function) : function.architectures == tolist(["x86_64"])])
    error_message = "infra/build notes the architecture in model.json."
  }
}
