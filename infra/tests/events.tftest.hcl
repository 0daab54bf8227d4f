# A model with events: they are published by the function that relays, and take the queue of stale paths while their target is busy.

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
  name              = "orders"
  model_description = "tests/events.json"
  package_s3        = { bucket = "packages", prefix = "1/" }
  create_tables     = true
  events_arn        = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"
  event_target_arns = { billing = "arn:aws:sqs:eu-west-1:210987654321:billing.fifo" }
}

run "relay_publishes_the_events_and_the_invalidator_those_whose_target_was_busy" {
  assert {
    condition     = aws_lambda_function.function["relay"].environment[0].variables.AFTERWRITE_PROJECTIONS == "archive,notify"
    error_message = "relay hosts the projection notify."
  }
  assert {
    condition = alltrue([
      for function in ["relay", "invalidator"] :
      aws_lambda_function.function[function].environment[0].variables.AFTERWRITE_EVENTS == "arn:aws:events:eu-west-1:123456789012:event-bus/orders" &&
      aws_lambda_function.function[function].environment[0].variables.AFTERWRITE_EVENTS_BILLING == "arn:aws:sqs:eu-west-1:210987654321:billing.fifo"
    ])
    error_message = "Both functions know all targets."
  }
  assert {
    condition     = aws_lambda_function.function["relay"].environment[0].variables.AFTERWRITE_CDN_QUEUE == "https://sqs.eu-west-1.amazonaws.com/123456789012/queue" && !can(aws_lambda_function.function["invalidator"].environment[0].variables.AFTERWRITE_CLOUDFRONT_DISTRIBUTION)
    error_message = "The queue exists without a distribution."
  }
  assert {
    condition = alltrue([
      for function in ["relay", "invalidator"] :
      one([for statement in jsondecode(aws_iam_role_policy.function[function].policy).Statement : statement.Resource if statement.Sid == "Events"]) == ["arn:aws:events:eu-west-1:123456789012:event-bus/orders", "arn:aws:sqs:eu-west-1:210987654321:billing.fifo"]
    ])
    error_message = "Both may publish to exactly these targets."
  }
  assert {
    condition     = length([for statement in jsondecode(aws_iam_role_policy.function["invalidator"].policy).Statement : statement if statement.Sid == "Invalidations"]) == 0
    error_message = "Without a distribution, nothing may be invalidated."
  }
  assert {
    condition     = length(setsubtract(["orders-events-failed", "orders-cdn-backlog", "orders-dead-letters-cdn"], [for alarm in values(aws_cloudwatch_metric_alarm.alarm) : alarm.alarm_name])) == 0
    error_message = "Events that fail or wait are reported."
  }
}

run "one_reader_hosts_everything" {
  variables {
    single_reader = true
  }
  assert {
    condition     = aws_lambda_function.function["aggregator"].environment[0].variables.AFTERWRITE_PROJECTIONS == "archive,notify" && aws_lambda_function.function["aggregator"].environment[0].variables.AFTERWRITE_EVENTS == "arn:aws:events:eu-west-1:123456789012:event-bus/orders"
    error_message = "aggregator hosts the projection notify."
  }
}

run "events_alone_are_something_to_derive" {
  variables {
    create_archive = false
  }
  assert {
    condition     = aws_lambda_function.function["relay"].environment[0].variables.AFTERWRITE_PROJECTIONS == "notify" && length(one(aws_lambda_event_source_mapping.stream["relay/Orders"].filter_criteria).filter) > 0
    error_message = "relay reads only the records of the entities that have events."
  }
}

# The default target and one that a rule names are missing, and no rule names the other one.
run "targets_that_do_not_fit_the_rules" {
  command = plan
  variables {
    events_arn        = null
    event_target_arns = { biling = "arn:aws:sqs:eu-west-1:210987654321:biling.fifo" }
  }
  expect_failures = [terraform_data.model]
}
