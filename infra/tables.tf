locals {
  table_names = {
    for table in keys(local.model.tables) : table => coalesce(try(var.tables[table].name, null), table)
  }
  # Every source table is created, or named by the ARN of its stream, or exists and is read.
  created_tables = var.create_tables ? local.table_names : {}
  named_streams  = { for table in keys(local.model.tables) : table => var.tables[table].stream_arn if !var.create_tables && try(var.tables[table].stream_arn, null) != null }
  existing_tables = {
    for table, name in local.table_names : table => name if !var.create_tables && !contains(keys(local.named_streams), table)
  }

  stream_arns = merge(
    local.named_streams,
    { for table, created in aws_dynamodb_table.source : table => created.stream_arn },
    { for table, existing in data.aws_dynamodb_table.source : table => existing.stream_arn },
  )
  tables_arn = "arn:${local.partition}:dynamodb:${local.region}:${local.account}:table"
  table_arns = merge(
    { for table, arn in local.named_streams : table => split("/stream/", arn)[0] },
    { for table, name in local.created_tables : table => "${local.tables_arn}/${name}" },
    { for table, existing in data.aws_dynamodb_table.source : table => existing.arn },
  )
  is_global = anytrue(concat(
    [for table in values(var.tables) : length(table.replicas) > 0],
    [for table in values(data.aws_dynamodb_table.source) : length(table.replica) > 0],
  ))

  # The indexes of the tables that are created: those that the model names, and those of the application.
  created_indexes = {
    for table in keys(local.created_tables) : table => merge(
      {
        for index, key in local.index_keys[table] : index => {
          hash_key           = key[0]
          range_key          = try(key[1], null)
          projection_type    = "ALL"
          non_key_attributes = null
        }
      },
      try(var.tables[table].global_secondary_indexes, {}),
    )
  }

  state_table_name = coalesce(var.state_table_name, "${var.name}-state")
  state_table_arn  = "${local.tables_arn}/${local.state_table_name}"
}

# Rollups, ledger, remembered lookups. Without a stream: the aggregator must not read its own writes.
resource "aws_dynamodb_table" "state" {
  #checkov:skip=CKV_AWS_119:Encrypted with a key that AWS owns, or with kms_key_arn if it is set
  count = var.create_state_table ? 1 : 0

  name                        = local.state_table_name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "PK"
  range_key                   = "SK"
  deletion_protection_enabled = var.deletion_protection_enabled
  tags                        = var.tags

  dynamic "attribute" {
    for_each = ["PK", "SK", "behind"]
    content {
      name = attribute.value
      type = "S"
    }
  }

  # Sparse: it lists parked items only.
  global_secondary_index {
    name            = "parked"
    hash_key        = "behind"
    projection_type = "KEYS_ONLY"
  }

  ttl {
    attribute_name = "expires_at"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  # Without a key of the deployment, DynamoDB encrypts with a key that AWS owns.
  server_side_encryption {
    enabled     = var.kms_key_arn != null
    kms_key_arn = var.kms_key_arn
  }
}

resource "aws_dynamodb_table" "source" {
  #checkov:skip=CKV_AWS_119:Encrypted with a key that AWS owns, or with kms_key_arn if it is set
  for_each = local.created_tables

  name                        = each.value
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = local.keys[each.key][0].name
  range_key                   = try(local.keys[each.key][1].name, null)
  stream_enabled              = true
  stream_view_type            = "NEW_AND_OLD_IMAGES"
  deletion_protection_enabled = var.deletion_protection_enabled
  tags                        = var.tags

  dynamic "attribute" {
    for_each = merge(
      { for name in flatten([for index in values(local.created_indexes[each.key]) : [for name in [index.hash_key, index.range_key] : name if name != null]]) : name => "S" },
      { for key in local.keys[each.key] : key.name => key.type },
    )
    content {
      name = attribute.key
      type = attribute.value
    }
  }

  dynamic "global_secondary_index" {
    for_each = local.created_indexes[each.key]
    content {
      name               = global_secondary_index.key
      hash_key           = global_secondary_index.value.hash_key
      range_key          = global_secondary_index.value.range_key
      projection_type    = global_secondary_index.value.projection_type
      non_key_attributes = global_secondary_index.value.non_key_attributes
    }
  }

  dynamic "ttl" {
    for_each = [for attribute in [try(var.tables[each.key].ttl_attribute, null)] : attribute if attribute != null]
    content {
      attribute_name = ttl.value
      enabled        = true
    }
  }

  dynamic "replica" {
    for_each = try(var.tables[each.key].replicas, [])
    content {
      region_name            = replica.value
      point_in_time_recovery = true
      propagate_tags         = true
    }
  }

  point_in_time_recovery {
    enabled = true
  }

  # Without a key of the deployment, DynamoDB encrypts with a key that AWS owns.
  server_side_encryption {
    enabled     = var.kms_key_arn != null
    kms_key_arn = var.kms_key_arn
  }
}

# Existing tables are checked against the model when the plan is made.
data "aws_dynamodb_table" "source" {
  for_each = local.existing_tables
  name     = each.value

  lifecycle {
    postcondition {
      condition     = self.stream_enabled && self.stream_view_type == "NEW_AND_OLD_IMAGES"
      error_message = "The table ${each.value} needs a stream with the view type NEW_AND_OLD_IMAGES, and has ${self.stream_enabled ? self.stream_view_type : "none"}. Without old images an expiry cannot be counted. To change the type: disable the stream, then enable it with the new type."
    }
    postcondition {
      condition     = self.hash_key == local.keys[each.key][0].name && (self.range_key == null ? "" : self.range_key) == try(local.keys[each.key][1].name, "")
      error_message = "The table ${each.value} has the key ${self.hash_key} ${self.range_key == null ? "" : self.range_key}, and the model ${local.model.name} declares ${join(" ", [for key in local.keys[each.key] : key.name])}."
    }
    postcondition {
      condition = alltrue([
        for key in local.keys[each.key] : anytrue([for attribute in self.attribute : attribute.name == key.name && attribute.type == key.type])
      ])
      error_message = "A key attribute of the table ${each.value} has another type than the model ${local.model.name} declares: ${join(", ", [for key in local.keys[each.key] : "${key.name} ${key.type}"])}."
    }
    postcondition {
      condition = alltrue([
        for index, key in local.index_keys[each.key] : anytrue([
          for existing in self.global_secondary_index :
          existing.name == index && existing.hash_key == key[0] && (length(key) == 1 || existing.range_key == try(key[1], ""))
        ])
      ])
      error_message = "The table ${each.value} lacks an index that lookups of the model ${local.model.name} query, or the index has another key: ${join("; ", [for index, key in local.index_keys[each.key] : "${index} (${join(", ", key)})"])}."
    }
    postcondition {
      # As `afterwrite doctor` judges it: a later generation of the model may look up any attribute, and DynamoDB cannot change a projection.
      condition = alltrue([
        for existing in self.global_secondary_index : existing.projection_type == "ALL" if contains(keys(local.index_keys[each.key]), existing.name)
      ])
      error_message = "An index of the table ${each.value} that lookups of the model ${local.model.name} query does not copy all attributes: lookups could miss their outputs, or the attributes that tell entities apart. Create another index with the projection ALL, and name it in the model."
    }
  }
}
