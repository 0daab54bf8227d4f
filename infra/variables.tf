variable "name" {
  description = "The name of the deployment: the prefix of all resources, and the dimension `service` of all metrics. Each stage has its own."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,29}$", var.name))
    error_message = "The name has 2 to 30 characters, begins with a letter, and has only lower-case letters, digits and hyphens: it is part of bucket names."
  }
}

variable "tags" {
  description = "Tags of all resources."
  type        = map(string)
  default     = {}
}

# --- The model and the functions' code --------------------------------------------------------------------------

variable "model" {
  description = "`AFTERWRITE_MODEL` of the functions: the model file in the zips, or the name of a built-in model."
  type        = string
  default     = "/var/task/model.toml"
}

variable "model_description" {
  description = "The path of the model's description, the output of `afterwrite model show --json`. Default: `model.json` in `package_dir`."
  type        = string
  default     = null
}

variable "package_dir" {
  description = "The folder with `<function>.zip` and `model.json`, as `infra/build` writes it. Set this or `package_s3`."
  type        = string
  default     = null
}

variable "package_s3" {
  description = "The zips in a bucket: `<prefix><function>.zip`. A changed zip needs another prefix, or object versions by function. Set this or `package_dir`."
  type = object({
    bucket   = string
    prefix   = optional(string, "")
    versions = optional(map(string), {})
  })
  default = null
}

variable "architecture" {
  description = "The instruction set of the functions: `arm64` or `x86_64`. The zips must be built for it. Default: the zips' own, as `infra/build` notes it in `model.json`; without a note, `arm64`."
  type        = string
  default     = null

  validation {
    condition     = var.architecture == null ? true : contains(["arm64", "x86_64"], var.architecture)
    error_message = "The architecture is arm64 or x86_64."
  }
}

# --- Tables -----------------------------------------------------------------------------------------------------

variable "create_tables" {
  description = "Whether the source tables are created, with the keys and indexes that the model needs. Otherwise they exist and are checked."
  type        = bool
  default     = false
}

variable "tables" {
  description = <<-EOT
    Settings of source tables, by the name in the model. A table without settings has the model's name.

    - `name`: the deployed name.
    - `former_names`: names that the table had before it was restored or replaced. Change records of these names are read, in streams and in the archive.
    - `stream_arn`: of a table of the same configuration: its stream. The name follows from it. The table is then not checked.
    - `replicas`: the other regions, if it is a global table. A table that exists is read for its replicas.
    - `ttl_attribute`: of a table that is created: the TTL attribute.
    - `global_secondary_indexes`: of a table that is created: indexes in addition to the indexes that the model names. `hash_key_type` and
      `range_key_type` are `S`, `N` or `B`. Default: the type that the attribute has in another key of the table, or `S`.
  EOT
  type = map(object({
    name          = optional(string)
    former_names  = optional(list(string), [])
    stream_arn    = optional(string)
    replicas      = optional(set(string), [])
    ttl_attribute = optional(string)
    global_secondary_indexes = optional(map(object({
      hash_key           = string
      hash_key_type      = optional(string)
      range_key          = optional(string)
      range_key_type     = optional(string)
      projection_type    = optional(string, "ALL")
      non_key_attributes = optional(set(string))
    })), {})
  }))
  default = {}

  validation {
    condition = alltrue([for table in values(var.tables) :
      table.stream_arn == null || can(regex("^arn:[a-z-]+:dynamodb:[a-z0-9-]+:[0-9]{12}:table/[^/]+/stream/[^/]+$", table.stream_arn))
    ])
    error_message = "A stream_arn is the ARN of a table's stream: arn:aws:dynamodb:<region>:<account>:table/<name>/stream/<label>."
  }

  validation {
    condition = alltrue(flatten([for table in values(var.tables) : [
      for index in values(table.global_secondary_indexes) : alltrue([for type in [index.hash_key_type, index.range_key_type] : type == null ? true : contains(["S", "N", "B"], type)])
    ]]))
    error_message = "hash_key_type and range_key_type of an index are S (text), N (number) or B (binary)."
  }
}

variable "create_state_table" {
  description = "Whether the state table is created. Otherwise `state_table_name` exists, with the properties that infra/README.md lists; the plan checks its stream, if rollups of the model are sources, and nothing else. A table that this module has created is destroyed when this is set to false, unless it is taken out of the state first: see \"Switch of the state table\" in docs/OPERATE.md."
  type        = bool
  default     = true
}

variable "state_table_name" {
  description = "The state table. Default: `<name>-state`."
  type        = string
  default     = null
}

variable "former_state_table_names" {
  description = "Names that the state table had before it was restored or replaced, if rollups of the model are sources: the archive has their changes under these names."
  type        = list(string)
  default     = []
}

variable "state_table_capacity" {
  description = <<-EOT
    Provisioned capacity of the state table with auto scaling, in write and read units a second. Default: on demand. The command `cost` shows from
    which rate provisioned capacity is cheaper.

    - `write_min`, `write_max`, `read_min`, `read_max`: the bounds of auto scaling.
    - `target_percent`: the use that it aims at, 20 to 90.
    - `index_write`, `index_read`: the fixed capacity of the index of parked items.
    - `rank_write`, `rank_read`: the fixed capacity of each index of a rank. Default: `write_max` and `read_max`, because a throttled index throttles the table.
  EOT
  type = object({
    write_min      = optional(number, 5)
    write_max      = number
    read_min       = optional(number, 5)
    read_max       = number
    target_percent = optional(number, 70)
    index_write    = optional(number, 5)
    index_read     = optional(number, 5)
    rank_write     = optional(number)
    rank_read      = optional(number)
  })
  default = null

  validation {
    condition = var.state_table_capacity == null ? true : alltrue([
      for units in values(var.state_table_capacity) : units == null ? true : units >= 1 && floor(units) == units
    ])
    error_message = "The capacities of state_table_capacity are whole numbers, 1 or more."
  }

  validation {
    condition     = var.state_table_capacity == null ? true : var.state_table_capacity.write_min <= var.state_table_capacity.write_max && var.state_table_capacity.read_min <= var.state_table_capacity.read_max
    error_message = "write_min and read_min of state_table_capacity are at most write_max and read_max."
  }

  validation {
    condition     = var.state_table_capacity == null ? true : var.state_table_capacity.target_percent >= 20 && var.state_table_capacity.target_percent <= 90
    error_message = "target_percent of state_table_capacity is 20 to 90."
  }
}

variable "deletion_protection_enabled" {
  description = "Whether the created tables are protected from deletion."
  type        = bool
  default     = true
}

# --- Readers of the stream --------------------------------------------------------------------------------------

variable "single_reader" {
  description = "Whether one function, `aggregator`, hosts all projections. A global table needs it: its streams allow one reader."
  type        = bool
  default     = false
}

variable "other_stream_readers" {
  description = "How many other consumers read the streams. DynamoDB allows two readers of a shard, and one for a global table; more are throttled."
  type        = number
  default     = 0

  validation {
    condition     = var.other_stream_readers >= 0 && floor(var.other_stream_readers) == var.other_stream_readers
    error_message = "The number of other readers is 0 or more."
  }
}

variable "stream_mapping" {
  description = <<-EOT
    The event source mappings of the streams. The defaults fold many changes into one write, and bound what a failing record can cost: see "Batches" in infra/README.md.

    - `batch_size`: 1 to 10,000 records. `maximum_batching_window_in_seconds`: 0 to 300.
    - `parallelization_factor`: 1 to 10 batches of a shard at once; the order of each item is kept.
    - `maximum_retry_attempts`: 0 to 10,000. −1, without a bound, blocks the shard until the records expire.
    - `maximum_record_age_in_seconds`: 60 to 86,400, the life of a record in the stream.
    - `enabled`: `false` stops the delivery; records older than 24 hours are then lost.
  EOT
  type = object({
    batch_size                         = optional(number, 1000)
    maximum_batching_window_in_seconds = optional(number, 5)
    parallelization_factor             = optional(number, 1)
    maximum_retry_attempts             = optional(number, 20)
    maximum_record_age_in_seconds      = optional(number, 21600)
    enabled                            = optional(bool, true)
  })
  default = {}

  validation {
    condition     = var.stream_mapping.batch_size >= 1 && var.stream_mapping.batch_size <= 10000
    error_message = "batch_size is 1 to 10,000 records."
  }

  validation {
    condition     = var.stream_mapping.maximum_batching_window_in_seconds >= 0 && var.stream_mapping.maximum_batching_window_in_seconds <= 300
    error_message = "maximum_batching_window_in_seconds is 0 to 300."
  }

  validation {
    condition     = var.stream_mapping.parallelization_factor >= 1 && var.stream_mapping.parallelization_factor <= 10
    error_message = "parallelization_factor is 1 to 10."
  }

  validation {
    condition     = var.stream_mapping.maximum_retry_attempts >= 0 && var.stream_mapping.maximum_retry_attempts <= 10000
    error_message = "maximum_retry_attempts is 0 to 10,000. Without a bound (-1), one failing record blocks its shard until the stream drops the records behind it."
  }

  validation {
    condition     = var.stream_mapping.maximum_record_age_in_seconds >= 60 && var.stream_mapping.maximum_record_age_in_seconds <= 86400
    error_message = "maximum_record_age_in_seconds is 60 to 86,400: the stream keeps a record for 24 hours."
  }
}

variable "stream_filters" {
  description = <<-EOT
    Filter patterns (JSON) of the event source mappings in place of the model's, by the table's name in the model: only records that match one of them invoke a function.
    An empty list: every record does. The heartbeat (`AFTERWRITE#HEARTBEAT`) must match, too. Default: the patterns of `afterwrite model filters`.
  EOT
  type        = map(list(string))
  default     = {}

  validation {
    condition     = alltrue([for patterns in values(var.stream_filters) : length(patterns) <= 5])
    error_message = "A mapping has at most 5 filter patterns."
  }

  validation {
    condition     = alltrue(flatten([for patterns in values(var.stream_filters) : [for pattern in patterns : can(jsondecode(pattern)) && length(pattern) <= 4096]]))
    error_message = "A filter pattern is JSON of at most 4,096 characters."
  }
}

variable "on_poison" {
  description = "What happens to records that can never be counted as they are: `park` marks the item and goes on; `fail` has the record redelivered."
  type        = string
  default     = "park"

  validation {
    condition     = contains(["park", "fail"], var.on_poison)
    error_message = "on_poison is park or fail."
  }
}
