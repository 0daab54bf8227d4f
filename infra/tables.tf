locals {
  # A table of the same configuration is named by its stream. The stream is unknown until the table exists, and when it is replaced: the keys of
  # no map may depend on it, not even on whether it is null.
  given_streams = { for table in local.source_tables : table => var.create_tables ? null : try(var.tables[table].stream_arn, null) }
  table_names = {
    for table, stream in local.given_streams :
    table => coalesce(try(var.tables[table].name, null), stream == null ? table : split("/", stream)[1])
  }
  # Every source table is created, or exists and is read. A table that is named by its stream is read when the stream is known.
  created_tables = var.create_tables ? local.table_names : {}
  existing_tables = var.create_tables ? {} : {
    for table, stream in local.given_streams : table => stream == null ? local.table_names[table] : split("/", stream)[1]
  }

  stream_arns = merge(
    { for table, created in aws_dynamodb_table.source : table => created.stream_arn },
    { for table, existing in data.aws_dynamodb_table.source : table => coalesce(local.given_streams[table], existing.stream_arn) },
  )
  tables_arn = "arn:${local.partition}:dynamodb:${local.region}:${local.account}:table"
  table_arns = merge(
    { for table, name in local.created_tables : table => "${local.tables_arn}/${name}" },
    { for table, existing in data.aws_dynamodb_table.source : table => existing.arn },
  )
  is_global = anytrue(concat(
    [for table in values(var.tables) : length(table.replicas) > 0],
    [for table in values(data.aws_dynamodb_table.source) : length(table.replica) > 0],
  ))

  # The indexes of the tables that are created: indexes that the model names, and indexes of the application.
  created_indexes = {
    for table in keys(local.created_tables) : table => merge(
      {
        for index, key in local.index_keys[table] : index => {
          hash_key           = key[0]
          hash_key_type      = "S"
          range_key          = try(key[1], null)
          range_key_type     = "S"
          projection_type    = "ALL"
          non_key_attributes = null
        }
      },
      try(var.tables[table].global_secondary_indexes, {}),
    )
  }

  # The key attributes of a created table and of its indexes, each with the types that are given for it. One attribute has one type.
  attribute_types = {
    for table, indexes in local.created_indexes : table => {
      for attribute in concat(
        [for key in local.keys[table] : { name = key.name, type = key.type }],
        [for index in values(indexes) : { name = index.hash_key, type = index.hash_key_type }],
        [for index in values(indexes) : { name = index.range_key, type = index.range_key_type } if index.range_key != null],
      ) : attribute.name => attribute.type...
    }
  }
  given_types = {
    for table, attributes in local.attribute_types : table => { for name, types in attributes : name => distinct(compact(types)) }
  }

  # Indexes of the application that have the name of a lookup's index, and not its key, or not all attributes.
  changed_indexes = {
    for table, indexes in local.created_indexes : table => [
      for index, key in local.index_keys[table] : index
      if !contains(local.several_attribute_indexes[table], index) && (
        indexes[index].projection_type != "ALL" || join("/", compact([indexes[index].hash_key, indexes[index].range_key])) != join("/", key)
      )
    ]
  }

  # Indexes of lookups with several attributes in a key, `[country (S), region (S)], city (S)`. The AWS provider 5 does not know them.
  several_attribute_indexes = {
    for table in local.source_tables : table => [
      for index in keys(local.index_keys[table]) : index if strcontains(try(local.model.indexes["${table}.${index}"], ""), "[")
    ]
  }

  is_provisioned = var.state_table_capacity != null
  scaled_capacities = local.is_provisioned && var.create_state_table ? {
    Write = { min = var.state_table_capacity.write_min, max = var.state_table_capacity.write_max }
    Read  = { min = var.state_table_capacity.read_min, max = var.state_table_capacity.read_max }
  } : {}

  state_table_name = coalesce(var.state_table_name, "${var.name}-state")
  state_table_arn  = "${local.tables_arn}/${local.state_table_name}"
  state_stream_arn = !local.has_levels ? null : var.create_state_table ? aws_dynamodb_table.state[0].stream_arn : data.aws_dynamodb_table.state[0].stream_arn
}

# Rollups, ledger, remembered lookups. It has a stream only if rollups are sources, and the filters of its mappings pass these rollups alone: the
# functions must not read their own writes.
resource "aws_dynamodb_table" "state" {
  #checkov:skip=CKV_AWS_119:Encrypted with a key that AWS owns, or with kms_key_arn if it is set
  count = var.create_state_table ? 1 : 0

  name                        = local.state_table_name
  billing_mode                = local.is_provisioned ? "PROVISIONED" : "PAY_PER_REQUEST"
  write_capacity              = local.is_provisioned ? var.state_table_capacity.write_min : null
  read_capacity               = local.is_provisioned ? var.state_table_capacity.read_min : null
  hash_key                    = "PK"
  range_key                   = "SK"
  stream_enabled              = local.has_levels ? true : null
  stream_view_type            = local.has_levels ? "NEW_AND_OLD_IMAGES" : null
  deletion_protection_enabled = var.deletion_protection_enabled
  tags                        = var.tags

  dynamic "attribute" {
    for_each = local.state_attributes
    content {
      name = attribute.key
      type = attribute.value
    }
  }

  # Sparse: it lists parked items only.
  global_secondary_index {
    name            = "parked"
    hash_key        = "behind"
    projection_type = "KEYS_ONLY"
    write_capacity  = local.is_provisioned ? var.state_table_capacity.index_write : null
    read_capacity   = local.is_provisioned ? var.state_table_capacity.index_read : null
  }

  # Each lists the rollups of groups in the order of a measure. A throttled index throttles the table.
  dynamic "global_secondary_index" {
    for_each = local.ranked_measures
    content {
      name            = "rank_${global_secondary_index.value}"
      hash_key        = "rank_${global_secondary_index.value}"
      range_key       = global_secondary_index.value
      projection_type = "ALL"
      write_capacity  = local.is_provisioned ? coalesce(var.state_table_capacity.rank_write, var.state_table_capacity.write_max) : null
      read_capacity   = local.is_provisioned ? coalesce(var.state_table_capacity.rank_read, var.state_table_capacity.read_max) : null
    }
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

  lifecycle {
    # Auto scaling changes them.
    ignore_changes = [read_capacity, write_capacity]
  }
}

# Auto scaling of the state table, if its capacity is provisioned. Throttled writes are retried within a function's time, and its records are
# redelivered: nothing is lost, batches take longer.
resource "aws_appautoscaling_target" "state" {
  for_each = local.scaled_capacities

  service_namespace  = "dynamodb"
  resource_id        = "table/${aws_dynamodb_table.state[0].name}"
  scalable_dimension = "dynamodb:table:${each.key}CapacityUnits"
  min_capacity       = each.value.min
  max_capacity       = each.value.max
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "state" {
  for_each = local.scaled_capacities

  name               = "${var.name}-state-${lower(each.key)}"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.state[each.key].service_namespace
  resource_id        = aws_appautoscaling_target.state[each.key].resource_id
  scalable_dimension = aws_appautoscaling_target.state[each.key].scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value = var.state_table_capacity.target_percent

    predefined_metric_specification {
      predefined_metric_type = "DynamoDB${each.key}CapacityUtilization"
    }
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
    for_each = { for name, types in local.given_types[each.key] : name => length(types) == 0 ? "S" : types[0] }
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

  lifecycle {
    precondition {
      condition     = alltrue([for types in values(local.given_types[each.key]) : length(types) <= 1])
      error_message = "An attribute of the table ${each.value} has two types in its keys: ${join("; ", [for name, types in local.given_types[each.key] : "${name} is ${join(" and ", types)}" if length(types) > 1])}. An attribute has one type: correct hash_key_type or range_key_type of its indexes. The model determines the types of the table's key, and lookups query texts (S)."
    }
    precondition {
      condition     = length(local.several_attribute_indexes[each.key]) == 0
      error_message = "The indexes ${join(", ", local.several_attribute_indexes[each.key])} of the table ${each.value} have several attributes in a key, which the AWS provider creates from version 6.29 on. Create the table outside the module, and name it in tables without create_tables."
    }
    precondition {
      condition     = length(local.changed_indexes[each.key]) == 0
      error_message = "The indexes ${join(", ", local.changed_indexes[each.key])} of the table ${each.value} are those of lookups of the model ${local.model.name}, with another key or projection in global_secondary_indexes. Leave them out there: the module creates them."
    }
  }
}

# A state table that the module does not create must have the stream that the model needs.
data "aws_dynamodb_table" "state" {
  count = local.has_levels && !var.create_state_table ? 1 : 0
  name  = local.state_table_name

  lifecycle {
    postcondition {
      condition     = self.stream_enabled && self.stream_view_type == "NEW_AND_OLD_IMAGES"
      error_message = "Rollups are sources in the model ${local.model.name}, so the state table ${local.state_table_name} needs a stream with the view type NEW_AND_OLD_IMAGES, and has ${self.stream_enabled ? self.stream_view_type : "none"}. Enable it, or let the module create the table. To change the type: disable the stream, then enable it with the new type."
    }
  }
}

# Existing tables are checked against the model when the plan is made. A table that is named by its stream is not: it is of the same
# configuration, and the same plan may change it.
data "aws_dynamodb_table" "source" {
  for_each = local.existing_tables
  name     = each.value

  lifecycle {
    postcondition {
      condition     = local.given_streams[each.key] != null || (self.stream_enabled && self.stream_view_type == "NEW_AND_OLD_IMAGES")
      error_message = "The table ${each.value} needs a stream with the view type NEW_AND_OLD_IMAGES, and has ${self.stream_enabled ? self.stream_view_type : "none"}. Without old images an expiry cannot be counted. To change the type: disable the stream, then enable it with the new type."
    }
    postcondition {
      condition     = local.given_streams[each.key] != null || (self.hash_key == local.keys[each.key][0].name && (self.range_key == null ? "" : self.range_key) == try(local.keys[each.key][1].name, ""))
      error_message = "The table ${each.value} has the key ${self.hash_key} ${self.range_key == null ? "" : self.range_key}, and the model ${local.model.name} declares ${join(" ", [for key in local.keys[each.key] : key.name])}."
    }
    postcondition {
      condition = local.given_streams[each.key] != null || alltrue([
        for key in local.keys[each.key] : anytrue([for attribute in self.attribute : attribute.name == key.name && attribute.type == key.type])
      ])
      error_message = "A key attribute of the table ${each.value} has another type than the model ${local.model.name} declares: ${join(", ", [for key in local.keys[each.key] : "${key.name} ${key.type}"])}."
    }
    postcondition {
      condition = local.given_streams[each.key] != null || alltrue([
        for index, key in local.index_keys[each.key] : anytrue([
          for existing in self.global_secondary_index :
          existing.name == index && (contains(local.several_attribute_indexes[each.key], index) || existing.hash_key == key[0] && (length(key) == 1 || existing.range_key == try(key[1], "")))
        ])
      ])
      error_message = "The table ${each.value} lacks an index that lookups of the model ${local.model.name} query, or the index has another key: ${join("; ", [for index, key in local.index_keys[each.key] : "${index} (${join(", ", key)})"])}."
    }
    postcondition {
      # As `afterwrite doctor` judges it: a later generation of the model may look up any attribute, and DynamoDB cannot change a projection.
      condition = local.given_streams[each.key] != null || alltrue([
        for existing in self.global_secondary_index : existing.projection_type == "ALL" if contains(keys(local.index_keys[each.key]), existing.name)
      ])
      error_message = "An index of the table ${each.value} that lookups of the model ${local.model.name} query does not copy all attributes: lookups could miss their outputs, or the attributes that tell entities apart. Create another index with the projection ALL, and name it in the model."
    }
  }
}
