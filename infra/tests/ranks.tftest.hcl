# The indexes of the state table that ranks need.

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
  # The source table of the model.
  mock_data "aws_dynamodb_table" {
    defaults = {
      arn              = "arn:aws:dynamodb:eu-west-1:123456789012:table/Scores"
      stream_arn       = "arn:aws:dynamodb:eu-west-1:123456789012:table/Scores/stream/2026-02-06T10:00:00.000"
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
  name              = "game"
  model_description = "tests/ranks.json"
  package_s3        = { bucket = "packages", prefix = "1/" }
}

run "each_ranked_measure_has_an_index_of_the_state_table" {
  command = plan
  variables {
    bulk_backfill = true
  }
  assert {
    condition = { for index in aws_dynamodb_table.state[0].global_secondary_index : index.name => join(" ", compact([index.hash_key, index.range_key, index.projection_type])) } == {
      parked      = "behind KEYS_ONLY"
      rank_mean   = "rank_mean mean ALL"
      rank_points = "rank_points points ALL"
    }
    error_message = "Two rollups rank points, and share the index."
  }
  assert {
    condition = { for attribute in aws_dynamodb_table.state[0].attribute : attribute.name => attribute.type } == {
      PK = "S", SK = "S", behind = "S", rank_mean = "S", mean = "N", rank_points = "S", points = "N"
    }
    error_message = "Groups are texts, and measures are numbers."
  }

  # A bulk backfill imports into a table with the indexes.
  assert {
    condition     = [for index in local.bulk_definition.States.Import.Parameters.TableCreationParameters.GlobalSecondaryIndexes : index.IndexName] == ["parked", "rank_mean", "rank_points"]
    error_message = "The imported table is a state table as the module creates it."
  }
}

run "a_provisioned_index_keeps_up_with_the_table" {
  command = plan
  variables {
    state_table_capacity = { write_max = 400, read_max = 100 }
  }
  assert {
    condition = { for index in aws_dynamodb_table.state[0].global_secondary_index : index.name => [index.write_capacity, index.read_capacity] } == {
      parked = [5, 5], rank_mean = [400, 100], rank_points = [400, 100]
    }
    error_message = "A throttled index throttles the table."
  }
}

run "the_capacity_of_the_indexes_can_be_set" {
  command = plan
  variables {
    state_table_capacity = { write_max = 400, read_max = 100, rank_write = 50, rank_read = 7 }
  }
  assert {
    condition     = alltrue([for index in aws_dynamodb_table.state[0].global_secondary_index : index.write_capacity == 50 && index.read_capacity == 7 if index.name != "parked"])
    error_message = "It has the given capacity."
  }
}
