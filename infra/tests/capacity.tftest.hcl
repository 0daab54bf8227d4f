# Provisioned capacity of the state table.

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

run "the_state_table_is_on_demand_by_default" {
  command = plan
  assert {
    condition     = aws_dynamodb_table.state[0].billing_mode == "PAY_PER_REQUEST" && length(aws_appautoscaling_target.state) == 0
    error_message = "Nothing is provisioned."
  }
}

run "the_state_table_has_provisioned_capacity_with_auto_scaling" {
  variables {
    state_table_capacity = { write_min = 10, write_max = 400, read_max = 100 }
  }
  assert {
    condition = (
      aws_dynamodb_table.state[0].billing_mode == "PROVISIONED" && aws_dynamodb_table.state[0].write_capacity == 10 && aws_dynamodb_table.state[0].read_capacity == 5 &&
      one(aws_dynamodb_table.state[0].global_secondary_index).write_capacity == 5
    )
    error_message = "The table and its index begin with the least capacity."
  }
  assert {
    condition = { for target in values(aws_appautoscaling_target.state) : target.scalable_dimension => [target.resource_id, target.min_capacity, target.max_capacity] } == {
      "dynamodb:table:WriteCapacityUnits" = ["table/exams-state", 10, 400]
      "dynamodb:table:ReadCapacityUnits"  = ["table/exams-state", 5, 100]
    }
    error_message = "Auto scaling keeps both within their bounds."
  }
  assert {
    condition = { for policy in values(aws_appautoscaling_policy.state) : policy.name => [
      one(policy.target_tracking_scaling_policy_configuration).target_value,
      one(one(policy.target_tracking_scaling_policy_configuration).predefined_metric_specification).predefined_metric_type
      ] } == {
      "exams-state-write" = [70, "DynamoDBWriteCapacityUtilization"]
      "exams-state-read"  = [70, "DynamoDBReadCapacityUtilization"]
    }
    error_message = "Both aim at 70 percent."
  }
}

run "a_capacity_that_is_not_a_whole_number" {
  command = plan
  variables {
    state_table_capacity = { write_max = 10.5, read_max = 10 }
  }
  expect_failures = [var.state_table_capacity]
}

run "no_capacity" {
  command = plan
  variables {
    state_table_capacity = { write_min = 0, write_max = 10, read_max = 10 }
  }
  expect_failures = [var.state_table_capacity]
}

run "a_minimum_of_writes_above_the_maximum" {
  command = plan
  variables {
    state_table_capacity = { write_min = 20, write_max = 10, read_max = 10 }
  }
  expect_failures = [var.state_table_capacity]
}

run "a_minimum_of_reads_above_the_maximum" {
  command = plan
  variables {
    state_table_capacity = { write_max = 10, read_min = 20, read_max = 10 }
  }
  expect_failures = [var.state_table_capacity]
}

run "a_target_that_auto_scaling_refuses" {
  command = plan
  variables {
    state_table_capacity = { write_max = 10, read_max = 10, target_percent = 95 }
  }
  expect_failures = [var.state_table_capacity]
}

run "a_target_of_less_than_twenty_percent" {
  command = plan
  variables {
    state_table_capacity = { write_max = 10, read_max = 10, target_percent = 10 }
  }
  expect_failures = [var.state_table_capacity]
}

run "capacity_of_a_table_that_exists" {
  command = plan
  variables {
    create_state_table   = false
    state_table_name     = "exams-state-2"
    state_table_capacity = { write_max = 10, read_max = 10 }
  }
  expect_failures = [terraform_data.model]
}
