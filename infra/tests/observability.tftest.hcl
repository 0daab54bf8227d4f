# Minimal observability: an alarm for every way of losing data, and few metrics.

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

run "minimal_observability_has_an_alarm_for_every_way_of_losing_data" {
  variables {
    observability = "minimal"
  }
  assert {
    condition = toset(keys(aws_cloudwatch_metric_alarm.alarm)) == toset([
      "iterator-age-aggregator", "iterator-age-relay", "delivery-failures-aggregator", "delivery-failures-relay",
      "on-failure-aggregator-ExamBuddyTable", "on-failure-relay-ExamBuddyTable", "dropped-aggregator-ExamBuddyTable", "dropped-relay-ExamBuddyTable",
      "parked", "expiries-too-old", "rejected-lines", "drift", "errors-verifier", "archive-delivery", "freshness-counted", "freshness-archived",
      "dead-letters-export", "dead-letters-schedules",
    ])
    error_message = "Unread, given up, dropped, parked and rejected records, and what the verifier finds."
  }
  assert {
    condition     = length(aws_cloudwatch_dashboard.deployment) == 0 && output.dashboard_name == null
    error_message = "There is no dashboard."
  }
  assert {
    condition     = alltrue([for function in values(aws_lambda_function.function) : function.environment[0].variables.AFTERWRITE_METRICS == "essential"])
    error_message = "The functions emit the essential metrics alone."
  }
}

run "full_observability_is_the_default" {
  command = plan
  assert {
    condition     = length(aws_cloudwatch_dashboard.deployment) == 1 && length(aws_cloudwatch_metric_alarm.alarm) == 40
    error_message = "All alarms and the dashboard."
  }
  assert {
    condition     = alltrue([for function in values(aws_lambda_function.function) : !contains(keys(function.environment[0].variables), "AFTERWRITE_METRICS")])
    error_message = "The functions emit all metrics."
  }
}

run "an_unknown_level_of_observability" {
  command = plan
  variables {
    observability = "little"
  }
  expect_failures = [var.observability]
}
