# Variables of the functions, their roles, logs, metrics and alarms.

variable "functions" {
  description = "Settings of functions (`aggregator`, `relay`, `invalidator`, `exporter`, `compactor`, `verifier`) in place of the defaults: memory and temporary storage in MB, timeout in seconds, reserved concurrency (-1: none; only `invalidator` reserves one by default), further environment variables."
  type = map(object({
    memory_size                    = optional(number)
    ephemeral_storage_size         = optional(number)
    timeout                        = optional(number)
    reserved_concurrent_executions = optional(number)
    environment_variables          = optional(map(string), {})
  }))
  default = {}

  validation {
    condition     = alltrue([for function in keys(var.functions) : contains(["aggregator", "relay", "invalidator", "exporter", "compactor", "verifier"], function)])
    error_message = "The functions are aggregator, relay, invalidator, exporter, compactor and verifier."
  }

  validation {
    condition     = alltrue([for function in values(var.functions) : function.memory_size == null ? true : function.memory_size >= 128 && function.memory_size <= 10240])
    error_message = "memory_size is 128 to 10,240 MB."
  }

  validation {
    condition     = alltrue([for function in values(var.functions) : function.ephemeral_storage_size == null ? true : function.ephemeral_storage_size >= 512 && function.ephemeral_storage_size <= 10240])
    error_message = "ephemeral_storage_size is 512 to 10,240 MB."
  }

  validation {
    condition     = alltrue([for function in values(var.functions) : function.timeout == null ? true : function.timeout >= 10 && function.timeout <= 900])
    error_message = "A timeout is 10 to 900 seconds: throttled writes are retried within that time."
  }
}

variable "canary" {
  description = "Functions whose alias `live` sends a share of the invocations to another published version. A version with another generation of the model is refused."
  type = map(object({
    version = string
    weight  = number
  }))
  default = {}

  validation {
    condition     = alltrue([for canary in values(var.canary) : canary.weight > 0 && canary.weight <= 1])
    error_message = "A weight is more than 0 and at most 1."
  }
}

variable "tracing_mode" {
  description = "X-Ray tracing of the functions: `Active` or `PassThrough`."
  type        = string
  default     = "Active"

  validation {
    condition     = contains(["Active", "PassThrough"], var.tracing_mode)
    error_message = "tracing_mode is Active or PassThrough."
  }
}

variable "log_level" {
  description = "The log level of the functions: TRACE, DEBUG or INFO."
  type        = string
  default     = "INFO"

  validation {
    condition     = contains(["TRACE", "DEBUG", "INFO"], var.log_level)
    error_message = "log_level is TRACE, DEBUG or INFO. With a higher level, Lambda drops the lines that have the metrics."
  }
}

variable "log_keys" {
  description = "Whether logs may have the keys of items."
  type        = bool
  default     = false
}

variable "cloudwatch_logs_retention_in_days" {
  description = "How long logs are kept."
  type        = number
  default     = 90

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.cloudwatch_logs_retention_in_days)
    error_message = "CloudWatch Logs keeps logs for 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653 days."
  }
}

variable "kms_key_arn" {
  description = "The key that encrypts tables, buckets, queues, logs, filters and environments. Its policy must let the account's policies decide, and admit CloudWatch Logs (`logs.<region>.amazonaws.com`), S3 (`s3.amazonaws.com`, for notifications) and Lambda (`lambda.<region>.amazonaws.com`, for filters): see \"Key\" in infra/README.md. Default: keys that AWS owns."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", var.kms_key_arn))
    error_message = "kms_key_arn is the ARN of a key, not of an alias: arn:aws:kms:<region>:<account>:key/<id>."
  }
}

variable "role_path" {
  description = "The path of the roles."
  type        = string
  default     = "/"
}

variable "role_permissions_boundary" {
  description = "The ARN of the policy that bounds the roles."
  type        = string
  default     = null
}

# --- Metrics and alarms -----------------------------------------------------------------------------------------

variable "metrics_namespace" {
  description = "The namespace of the functions' metrics (`POWERTOOLS_METRICS_NAMESPACE`)."
  type        = string
  default     = "Afterwrite"

  validation {
    condition     = can(regex("^[A-Za-z0-9._/#-]{1,255}$", var.metrics_namespace)) && !startswith(var.metrics_namespace, "AWS/")
    error_message = "A namespace has up to 255 letters, digits and . _ / # -, and does not begin with AWS/."
  }
}

variable "heartbeat_schedule" {
  description = "When `aggregator` writes a heartbeat to each source table, whose age every stage reports: an expression of EventBridge Scheduler. `null`: never, and no alarms on freshness."
  type        = string
  default     = "rate(1 minute)"

  validation {
    condition     = var.heartbeat_schedule == null || can(regex("^(rate\\((1 (minute|hour|day)|([2-9]|[1-9][0-9]+) (minutes|hours|days))\\)|cron\\([^ ]+( [^ ]+){5}\\))$", var.heartbeat_schedule))
    error_message = "heartbeat_schedule is rate(1 hour), rate(2 hours), … (minutes, hours or days; singular for 1 alone), or cron(…) with six fields, or null."
  }
}

variable "verify_schedule" {
  description = "When `verifier` compares rollups, ledger, mirrors and datasets with the items: an expression of EventBridge Scheduler. It reads the tables with `Scan`. `null`: never."
  type        = string
  default     = "rate(1 day)"

  validation {
    condition     = var.verify_schedule == null || can(regex("^(rate\\((1 (minute|hour|day)|([2-9]|[1-9][0-9]+) (minutes|hours|days))\\)|cron\\([^ ]+( [^ ]+){5}\\))$", var.verify_schedule))
    error_message = "verify_schedule is rate(1 hour), rate(2 hours), … (minutes, hours or days; singular for 1 alone), or cron(…) with six fields, or null."
  }
}

variable "verify_sample" {
  description = "The share of items, rollups and rows that `verifier` judges: more than 0 and at most 1. A run reads the tables completely, as far as its time allows, and judges this share."
  type        = number
  default     = 0.01

  validation {
    condition     = var.verify_sample > 0 && var.verify_sample <= 1
    error_message = "verify_sample is more than 0 and at most 1."
  }
}

variable "observability" {
  description = "`full`: all metrics, alarms and a dashboard. `minimal`: the metrics and alarms that report every way of losing data, at most $5 a month with a table or two; everything else is in the logs. The command `cost` names the rate below which `full` costs more than the rest."
  type        = string
  default     = "full"

  validation {
    condition     = contains(["full", "minimal"], var.observability)
    error_message = "observability is full or minimal."
  }
}

variable "create_alarms" {
  description = "Whether the alarms are created. docs/RUNBOOK.md explains each."
  type        = bool
  default     = true
}

variable "alarm_actions" {
  description = "ARNs (for example of SNS topics) that alarms notify."
  type        = list(string)
  default     = []
}

variable "alarm_thresholds" {
  description = <<-EOT
    Thresholds of the alarms.

    - `iterator_age_seconds`: age of the oldest record that a reader has not read.
    - `unmatched_percent`: share of the records that match no entity.
    - `conflict_percent`: conflicts per transaction.
    - `duration_percent`: longest run, as a share of the timeout.
    - `exporter_backlog_seconds`: age of the oldest object that is not exported.
    - `cdn_backlog_seconds`: age of the oldest path that is not invalidated.
    - `counted_…`, `archived_…`, `exported_…`, `queryable_freshness_seconds`: age of the newest heartbeat when it passes a stage. Each must exceed
      what a healthy deployment reaches: see "Heartbeat" in docs/OPERATE.md. The schedules determine how often it is judged.
  EOT
  type = object({
    iterator_age_seconds     = optional(number, 300)
    unmatched_percent        = optional(number, 50)
    conflict_percent         = optional(number, 50)
    duration_percent         = optional(number, 80)
    exporter_backlog_seconds = optional(number, 3600)
    cdn_backlog_seconds      = optional(number, 900)

    counted_freshness_seconds   = optional(number, 300)
    archived_freshness_seconds  = optional(number, 300)
    exported_freshness_seconds  = optional(number, 2700)
    queryable_freshness_seconds = optional(number, 10800)
  })
  default = {}
}
