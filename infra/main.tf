data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.id

  is_minimal = var.observability == "minimal"

  # Which parts of the product are deployed.
  has_aggregate  = length(local.model.rollups) > 0
  has_archive    = var.create_archive
  has_cache      = nonsensitive(var.cache_url != null) || var.cache_url_secret_arn != null
  has_cdn        = var.cloudfront_distribution_id != null
  has_invalidate = local.has_cache || local.has_cdn
  has_events     = length(local.event_targets) > 0
  # The queue of stale paths also takes the events whose target is busy.
  has_drain = local.has_cdn || local.has_events

  projections = compact([
    local.has_aggregate ? "aggregate" : "",
    local.has_invalidate ? "invalidate" : "",
    local.has_archive ? "archive" : "",
    local.has_events ? "notify" : "",
  ])
  has_heartbeat = local.has_aggregate && var.heartbeat_schedule != null
  relayed       = [for projection in local.projections : projection if projection != "aggregate"]
  has_relay     = !var.single_reader && length(local.relayed) > 0
  has_counter   = local.has_aggregate || (var.single_reader && length(local.projections) > 0)

  # The functions that read the streams.
  readers = compact([local.has_counter ? "aggregator" : "", local.has_relay ? "relay" : ""])
  # The function that hosts `invalidate`, `archive` and `notify`.
  relaying = var.single_reader ? "aggregator" : "relay"

  enabled = {
    aggregator  = local.has_counter
    relay       = local.has_relay
    invalidator = local.has_drain
    exporter    = local.has_archive && local.has_datasets
    compactor   = local.has_archive && local.has_datasets
    verifier    = local.has_aggregate && var.verify_schedule != null
  }
  defaults = {
    aggregator  = { memory_size = 256, ephemeral_storage_size = 512, timeout = 60, reserved_concurrent_executions = -1 }
    relay       = { memory_size = 256, ephemeral_storage_size = 512, timeout = 60, reserved_concurrent_executions = -1 }
    invalidator = { memory_size = 256, ephemeral_storage_size = 512, timeout = 60, reserved_concurrent_executions = 1 }
    exporter    = { memory_size = 512, ephemeral_storage_size = 512, timeout = 300, reserved_concurrent_executions = -1 }
    compactor   = { memory_size = 1024, ephemeral_storage_size = 10240, timeout = 900, reserved_concurrent_executions = -1 }
    verifier    = { memory_size = 1024, ephemeral_storage_size = 10240, timeout = 900, reserved_concurrent_executions = -1 }
  }
  functions = {
    for function, default in local.defaults : function => {
      for setting, value in default : setting => coalesce(try(var.functions[function][setting], null), value)
    }
  }
  deployed = { for function, settings in local.functions : function => settings if local.enabled[function] }

  # --- The environment of the functions ---

  # The first name of a table is its current one. Change records of all of its names are read.
  renames = concat(flatten([
    for table, name in local.table_names : [
      for deployed in concat([name], try(var.tables[table].former_names, [])) : "${table}=${deployed}"
    ] if table != name || length(try(var.tables[table].former_names, [])) > 0
  ]), [for former in var.former_state_table_names : "@state=${former}"])
  common_env = {
    AFTERWRITE_MODEL             = var.model
    AFTERWRITE_TABLES            = length(local.renames) == 0 ? null : join(",", local.renames)
    POWERTOOLS_METRICS_NAMESPACE = var.metrics_namespace
    POWERTOOLS_SERVICE_NAME      = var.name
    AFTERWRITE_METRICS           = local.is_minimal ? "essential" : null
  }
  counting_env = {
    AFTERWRITE_STATE_TABLE = local.state_table_name
    AFTERWRITE_ON_POISON   = var.on_poison
  }
  relaying_env = merge(local.events_env, {
    AFTERWRITE_FIREHOSE_STREAM = local.has_archive ? local.firehose_name : null
    AFTERWRITE_BUCKET          = local.has_archive ? local.bucket_name : null
    AFTERWRITE_CACHE_URL       = var.cache_url
    AFTERWRITE_CACHE_SECRET    = var.cache_url_secret_arn
    AFTERWRITE_CACHE_CLUSTER   = local.has_cache && var.cache_cluster ? "true" : null
    AFTERWRITE_CDN_QUEUE       = local.has_drain ? one(aws_sqs_queue.cdn[*].url) : null
  })
  log_keys_env = { AFTERWRITE_LOG_KEYS = var.log_keys ? "true" : null }
  function_env = {
    aggregator = merge(
      local.counting_env,
      local.log_keys_env,
      var.single_reader ? local.relaying_env : {},
      { AFTERWRITE_PROJECTIONS = join(",", var.single_reader ? local.projections : ["aggregate"]) },
    )
    relay = merge(local.relaying_env, local.log_keys_env, {
      AFTERWRITE_PROJECTIONS = join(",", local.relayed)
      # Records of its stream name it.
      AFTERWRITE_STATE_TABLE = try(local.reads_state.relay, false) ? local.state_table_name : null
    })
    invalidator = merge(local.events_env, local.log_keys_env, { AFTERWRITE_CLOUDFRONT_DISTRIBUTION = var.cloudfront_distribution_id })
    exporter = {
      AFTERWRITE_BUCKET      = local.bucket_name
      AFTERWRITE_STATE_TABLE = local.has_aggregate ? local.state_table_name : null
    }
    compactor = { AFTERWRITE_BUCKET = local.bucket_name }
    verifier = {
      AFTERWRITE_BUCKET      = local.has_archive ? local.bucket_name : null
      AFTERWRITE_STATE_TABLE = local.state_table_name
    }
  }
  environments = {
    for function in keys(local.deployed) : function => {
      for name, value in merge(local.common_env, local.function_env[function], try(var.functions[function].environment_variables, {})) :
      name => value if value != null
    }
  }
  in_vpc = { for function in keys(local.deployed) : function => local.has_cache && length(var.vpc_subnet_ids) > 0 && function == local.relaying }
}
