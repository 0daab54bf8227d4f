# The model's description, as far as a deployment depends on it: tables and their keys, indexes of lookups, mirrored tables, the
# beginnings of partition keys, datasets.

locals {
  package_dir      = var.package_dir == null ? null : abspath(var.package_dir)
  description_path = var.model_description != null ? var.model_description : "${coalesce(local.package_dir, path.module)}/model.json"

  model = jsondecode(file(local.description_path))

  # Descriptions of earlier versions of infra/build, and of `afterwrite model show`, have no architecture.
  architecture = coalesce(var.architecture, try(local.model.architecture, null), "arm64")

  # The application's tables. A model whose rollups are sources names the state table, too.
  state_source = "@state"
  has_levels   = contains(keys(local.model.tables), local.state_source)
  # A contribution to such a rollup that has expired is dropped: the levels above lack it. The rollup of a distinct count's members has a dot in its name.
  has_expiring_sources = anytrue([
    for name, entity in local.model.entities :
    entity.table == local.state_source && try(entity.on_expiry, "") == "keep" && try(local.model.rollups[name].expires, null) != null && !can(regex("[.]", name))
  ])
  source_tables = [for table in keys(local.model.tables) : table if table != local.state_source]

  # Key attributes are written `name`, or `name (N)` with another type than text.
  keys = {
    for table, key in local.model.tables : table => [
      for attribute in key : {
        name = split(" (", attribute)[0]
        type = try(regex(" \\(([NB])\\)$", attribute)[0], "S")
      }
    ]
  }

  lookups = [
    for lookup in values(local.model.lookups) : {
      table = local.model.entities[lookup.of].table
      index = lookup.index
      # `GSI1PK = PROJECT#{project_id}, GSI1SK = …`
      key = [for match in regexall("(?:^|, )([^ ,=]+) = ", lookup.key) : match[0]]
    } if try(lookup.index, null) != null
  ]

  # The tables whose items lookups read by their primary keys.
  tables_read_by_key = distinct([
    for lookup in values(local.model.lookups) : local.model.entities[lookup.of].table if try(lookup.index, null) == null
  ])

  # The keys of the indexes that lookups query. A lookup may leave out the sort key; the longest key is the index's.
  lookup_indexes = {
    for table in local.source_tables : table => {
      for index in distinct([for lookup in local.lookups : lookup.index if lookup.table == table]) :
      index => reverse(sort([
        for lookup in local.lookups : join("/", concat([length(lookup.key)], lookup.key)) if lookup.table == table && lookup.index == index
      ]))[0]
    }
  }
  index_keys = {
    for table, indexes in local.lookup_indexes : table => {
      for index, key in indexes : index => slice(split("/", key), 1, length(split("/", key)))
    }
  }

  mirrored_entities = distinct([for mirror in keys(local.model.mirrors) : split(".", mirror)[0]])

  # The beginning of each entity's and rollup's partition key, up to the first variable, as a pattern of IAM. A table whose partition
  # keys are not text, or begin with a variable, cannot be narrowed: its patterns contain `*`.
  entity_partitions = {
    for name, entity in local.model.entities : name => local.keys[entity.table][0].type == "S" ? "${replace(split("{", split(" / ", entity.key)[0])[0], "*", "?")}*" : "*"
  }
  read_partitions = {
    for table in local.source_tables : table => distinct([
      for name, entity in local.model.entities : local.entity_partitions[name] if entity.table == table
    ])
  }
  mirrored_partitions = {
    for table in local.source_tables : table => distinct([
      for entity in local.mirrored_entities : local.entity_partitions[entity] if local.model.entities[entity].table == table
    ])
  }
  rollup_partitions = distinct([
    for rollup in values(local.model.rollups) : "${replace(split("{", split(" / ", rollup.key)[0])[0], "*", "?")}*"
  ])

  # The measures that order rollups. Each needs an index of the state table: `rank_<measure>`. Descriptions of earlier versions have no ranks.
  ranked_measures = sort(distinct(flatten([for rollup in values(local.model.rollups) : keys(try(rollup.rank, {}))])))
  state_attributes = merge(
    { for name in ["PK", "SK", "behind"] : name => "S" },
    { for measure in local.ranked_measures : "rank_${measure}" => "S" },
    { for measure in local.ranked_measures : measure => "N" },
  )

  has_paths    = length(flatten([for cache in local.model.caches : cache.paths])) > 0
  has_keys     = length(flatten([for cache in local.model.caches : cache.keys])) > 0
  has_datasets = length(local.model.datasets) > 0
}

# The checks that need more than one variable. All are made at plan time; the state keeps the model's name and generation.
resource "terraform_data" "model" {
  input = {
    name       = local.model.name
    generation = local.model.generation
  }

  lifecycle {
    precondition {
      condition     = (var.package_dir == null) != (var.package_s3 == null)
      error_message = "Set package_dir to the folder that infra/build wrote, or package_s3 to the bucket that has the zips, and not both."
    }
    precondition {
      condition     = try(local.model.architecture, local.architecture) == local.architecture
      error_message = "infra/build made the zips for ${try(local.model.architecture, "")}, and architecture is ${local.architecture}: Lambda could not start the functions. Set architecture, or build the zips again."
    }
    precondition {
      condition     = alltrue([for table in keys(var.tables) : contains(local.source_tables, table)])
      error_message = "`tables` has a table that the model ${local.model.name} does not know. Its tables: ${join(", ", local.source_tables)}."
    }
    precondition {
      condition     = alltrue([for table in keys(var.stream_filters) : contains(local.source_tables, table)])
      error_message = "`stream_filters` has a table that the model ${local.model.name} does not know. Its tables: ${join(", ", local.source_tables)}."
    }
    precondition {
      condition     = length(distinct(values(local.table_names))) == length(local.table_names)
      error_message = "Two tables of the model have the same deployed name."
    }
    precondition {
      condition     = alltrue([for table, stream in local.given_streams : stream == null ? true : split("/", stream)[1] == local.table_names[table]])
      error_message = "In `tables`, `name` and `stream_arn` are of different tables: ${join(", ", [for table, stream in local.given_streams : "${table} has the name ${local.table_names[table]} and the stream ${stream}" if stream == null ? false : split("/", stream)[1] != local.table_names[table]])}. Leave `name` out: it follows from the stream."
    }
    precondition {
      condition     = !contains(values(local.table_names), local.state_table_name)
      error_message = "`${local.state_table_name}` is both the state table and a source table. The aggregator would read its own writes: give the state table another name."
    }
    precondition {
      condition     = length(local.readers) + var.other_stream_readers <= (local.is_global ? 1 : 2)
      error_message = local.is_global ? "A global table's stream allows one reader, and ${length(local.readers) + var.other_stream_readers} are configured. Set single_reader = true, and remove other consumers of the stream." : "A stream allows two readers, and ${length(local.readers) + var.other_stream_readers} are configured (${join(", ", local.readers)}, and ${var.other_stream_readers} others). Set single_reader = true, or remove another consumer of the stream."
    }
    precondition {
      condition     = !var.create_tables || var.kms_key_arn == null || alltrue([for table in values(var.tables) : length(table.replicas) == 0])
      error_message = "Each replica of a global table needs a key of its own region, which this module does not take. Create the table in your configuration, and name its stream in `tables`."
    }
    precondition {
      condition     = var.create_state_table || var.state_table_capacity == null
      error_message = "state_table_capacity is for a state table that the module creates: with create_state_table = false, the table has the capacity that it was created with."
    }
    precondition {
      condition     = var.cache_url == null || var.cache_url_secret_arn == null
      error_message = "Set cache_url or cache_url_secret_arn, not both."
    }
    precondition {
      condition     = alltrue([for arn in values(local.event_target_arns) : arn != null])
      error_message = "The model ${local.model.name} has events without a target: set ${join(", ", [for to, arn in local.event_target_arns : to == "" ? "events_arn" : "event_target_arns[\"${to}\"]" if arn == null])} to the ARN of an EventBridge bus, an SQS queue or an SNS topic."
    }
    precondition {
      condition     = alltrue([for to in keys(var.event_target_arns) : contains(local.event_targets, to)])
      error_message = "`event_target_arns` has a target that no event rule of the model ${local.model.name} names. Its targets: ${join(", ", [for to in local.event_targets : to if to != "-"])}."
    }
    precondition {
      condition     = length(var.vpc_subnet_ids) == 0 || length(var.vpc_security_group_ids) > 0
      error_message = "vpc_subnet_ids needs vpc_security_group_ids: the security group that the cache's group admits."
    }
    precondition {
      condition     = length(local.readers) > 0
      error_message = "The model ${local.model.name} has no rollups, and neither archive, cache, distribution nor events are configured: there is nothing to derive."
    }
  }
}
