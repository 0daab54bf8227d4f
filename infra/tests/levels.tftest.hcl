# A model whose rollups are sources: the state table has a stream, which its readers get through a filter.

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
}

variables {
  name              = "levels"
  model_description = "tests/levels.json"
  package_s3        = { bucket = "packages", prefix = "1/" }
  create_tables     = true
}

run "the_state_table_has_a_stream_that_both_readers_read_through_a_filter" {
  assert {
    condition     = aws_dynamodb_table.state[0].stream_enabled && aws_dynamodb_table.state[0].stream_view_type == "NEW_AND_OLD_IMAGES"
    error_message = "Rollups are sources, so the state table has a stream with both images."
  }
  assert {
    condition     = keys(aws_lambda_event_source_mapping.stream) == ["aggregator/@state", "aggregator/Orders", "relay/@state", "relay/Orders"]
    error_message = "Both functions read both streams: aggregator counts days, relay archives them."
  }
  assert {
    condition = alltrue([
      for key in ["aggregator/@state", "relay/@state"] :
      toset([for filter in one(aws_lambda_event_source_mapping.stream[key].filter_criteria).filter : filter.pattern]) == toset(jsondecode(file("tests/levels.json")).filters["@state"].aggregate) &&
      aws_lambda_event_source_mapping.stream[key].event_source_arn == aws_dynamodb_table.state[0].stream_arn &&
      aws_lambda_event_source_mapping.stream[key].starting_position == "TRIM_HORIZON"
    ])
    error_message = "Only rollups that are sources invoke a function, although the archive has every change of the tables."
  }
  assert {
    condition     = length(aws_lambda_event_source_mapping.stream["relay/Orders"].filter_criteria) == 0
    error_message = "Of the application's table, the archive has every change."
  }
  assert {
    condition     = keys(aws_dynamodb_table.source) == ["Orders"] && keys(output.table_names) == ["Orders"] && keys(output.stream_arns) == ["Orders"]
    error_message = "The state table is not a table of the application."
  }
  assert {
    condition     = aws_lambda_function.function["relay"].environment[0].variables.AFTERWRITE_STATE_TABLE == "levels-state"
    error_message = "relay knows the table whose stream it reads."
  }
  assert {
    condition     = !can(aws_lambda_function.function["aggregator"].environment[0].variables.AFTERWRITE_TABLES)
    error_message = "The state table is not renamed as a source table."
  }
  assert {
    condition = alltrue([
      for function in ["aggregator", "relay"] :
      contains(flatten([for statement in jsondecode(aws_iam_role_policy.function[function].policy).Statement : statement.Resource if statement.Sid == "StateStream"]), "arn:aws:dynamodb:eu-west-1:123456789012:table/levels-state/stream/*")
    ])
    error_message = "The mappings of the state table's stream read it with the functions' roles."
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.function["aggregator"].policy).Statement :
      contains(statement.Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"], "AFTERWRITE#HEARTBEAT") if statement.Sid == "LedgerAndRollups"
    ])
    error_message = "aggregator writes a heartbeat to the state table, whose stream is measured like the others."
  }
  assert {
    condition = length(setsubtract([
      "levels-on-failure-aggregator-@state", "levels-dropped-aggregator-@state", "levels-on-failure-relay-@state", "levels-dropped-relay-@state",
    ], [for alarm in values(aws_cloudwatch_metric_alarm.alarm) : alarm.alarm_name])) == 0
    error_message = "Each mapping has its alarms. The iterator age is a metric of the function, over all of its streams."
  }
  assert {
    condition     = !contains(keys(aws_cloudwatch_metric_alarm.alarm), "dropped-contributions")
    error_message = "No source expires."
  }
}

run "one_reader_reads_both_streams" {
  variables {
    single_reader = true
  }
  assert {
    condition     = keys(aws_lambda_event_source_mapping.stream) == ["aggregator/@state", "aggregator/Orders"] && length(aws_lambda_event_source_mapping.stream["aggregator/@state"].filter_criteria) == 1
    error_message = "The one function reads both streams, and the state table's through a filter."
  }
}

run "a_function_that_uses_no_rollup_as_source_does_not_read_the_state_table" {
  variables {
    create_archive = false
  }
  assert {
    condition     = keys(aws_lambda_event_source_mapping.stream) == ["aggregator/@state", "aggregator/Orders"]
    error_message = "Without an archive and caches, aggregator alone reads."
  }
}

# Its patterns cannot be replaced, and it is not named among the tables.
run "a_given_state_table_without_a_stream" {
  command = plan
  variables {
    create_state_table = false
    stream_filters     = { "@state" = [] }
    tables             = { "@state" = { name = "other" } }
  }
  override_data {
    target = data.aws_dynamodb_table.state[0]
    values = { stream_enabled = false, stream_view_type = "" }
  }
  expect_failures = [data.aws_dynamodb_table.state, terraform_data.model]
}

run "a_given_state_table_whose_stream_lacks_old_images" {
  command = plan
  variables {
    create_state_table = false
  }
  override_data {
    target = data.aws_dynamodb_table.state[0]
    values = { stream_enabled = true, stream_view_type = "NEW_IMAGE" }
  }
  expect_failures = [data.aws_dynamodb_table.state]
}

run "a_given_state_table_with_its_stream_and_an_earlier_name" {
  variables {
    create_state_table       = false
    former_state_table_names = ["levels-state-before"]
    model_description        = "tests/levels-expiring.json"
    observability            = "minimal"
  }
  override_data {
    target = data.aws_dynamodb_table.state[0]
    values = {
      stream_enabled = true, stream_view_type = "NEW_AND_OLD_IMAGES"
      stream_arn     = "arn:aws:dynamodb:eu-west-1:123456789012:table/levels-state/stream/2026-02-06T11:00:00.000"
    }
  }
  assert {
    condition     = aws_lambda_event_source_mapping.stream["aggregator/@state"].event_source_arn == "arn:aws:dynamodb:eu-west-1:123456789012:table/levels-state/stream/2026-02-06T11:00:00.000"
    error_message = "The mapping reads the stream of the given table."
  }
  assert {
    condition     = alltrue([for function in ["aggregator", "relay"] : aws_lambda_function.function[function].environment[0].variables.AFTERWRITE_TABLES == "@state=levels-state-before"])
    error_message = "The functions read the changes that the archive has under the earlier name."
  }

  # Sources that expire have an alarm on dropped contributions, with minimal observability too.
  assert {
    condition     = aws_cloudwatch_metric_alarm.alarm["dropped-contributions"].metric_name == "DroppedContributions" && aws_cloudwatch_metric_alarm.alarm["dropped-contributions"].dimensions.Function == "aggregator"
    error_message = "The levels above lack such contributions."
  }
}

run "a_description_without_patterns_for_the_state_table" {
  command = plan
  variables {
    model_description = "tests/levels-without-patterns.json"
    create_archive    = false
  }
  expect_failures = [aws_lambda_event_source_mapping.stream]
}
