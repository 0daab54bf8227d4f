# Variables of the caches, the archive and the datasets.

# --- Caches -----------------------------------------------------------------------------------------------------

variable "cache_url" {
  description = "The Redis or Valkey whose keys are removed: `redis://host:6379` or `rediss://host:6379`. With a password, use `cache_url_secret_arn`."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.cache_url == null || can(regex("^rediss?://[^@]+$", var.cache_url))
    error_message = "cache_url is redis://host:port or rediss://host:port, without a password. Put an address with a password into Secrets Manager, and set cache_url_secret_arn."
  }
}

variable "cache_url_secret_arn" {
  description = "The secret that has the cache's address as its text: `rediss://user:password@host:6379`. The function reads it when it starts; it is in neither the state nor the function's environment. Encrypted with `kms_key_arn`, or with the key `aws/secretsmanager`."
  type        = string
  default     = null

  validation {
    condition     = var.cache_url_secret_arn == null || can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:.+$", var.cache_url_secret_arn))
    error_message = "cache_url_secret_arn is the ARN of a secret: arn:aws:secretsmanager:<region>:<account>:secret:<name>."
  }
}

variable "cache_cluster" {
  description = "Whether the cache is in cluster mode. ElastiCache Serverless is."
  type        = bool
  default     = false
}

variable "cloudfront_distribution_id" {
  description = "The distribution whose paths are invalidated, through a queue."
  type        = string
  default     = null
}

variable "vpc_subnet_ids" {
  description = "The subnets of the function that removes cache keys. They need routes to Firehose, S3, SQS and DynamoDB, and to Secrets Manager if there is a `cache_url_secret_arn`: endpoints or a NAT."
  type        = list(string)
  default     = []
}

variable "vpc_security_group_ids" {
  description = "The security groups of that function. The cache's group must admit them."
  type        = list(string)
  default     = []
}

# --- The archive and the datasets -------------------------------------------------------------------------------

variable "create_archive" {
  description = "Whether changes are archived and exported to datasets: delivery stream, bucket, `exporter`, `compactor`, Athena."
  type        = bool
  default     = true
}

variable "bucket_name" {
  description = "The bucket of the archive and the datasets. Default: `<name>-<account>-<region>`."
  type        = string
  default     = null

  validation {
    condition     = var.bucket_name == null || can(regex("^[a-z0-9]([a-z0-9-]|\\.[a-z0-9]){1,61}$", var.bucket_name))
    error_message = "bucket_name has only lower-case letters, digits, hyphens and dots, begins with a letter or a digit, and has no two dots in a row."
  }

  validation {
    condition     = var.bucket_name == null ? true : length(var.bucket_name) >= 3 && length(var.bucket_name) <= 63 && !endswith(var.bucket_name, "-")
    error_message = "bucket_name has 3 to 63 characters, and its last one is a letter or a digit."
  }
}

variable "force_destroy" {
  description = "Whether buckets and the workgroup are deleted with their contents. For test deployments."
  type        = bool
  default     = false
}

variable "bucket_versioning" {
  description = "Whether the bucket keeps deleted and overwritten objects for 30 days."
  type        = bool
  default     = false
}

variable "access_log_bucket" {
  description = "The bucket that takes the access logs of this module's buckets. Default: no access logs."
  type        = string
  default     = null
}

variable "archive_transitions" {
  description = "When archived objects move to a cheaper storage class. Replay reads GLACIER_IR and STANDARD_IA at once; other classes must be restored first."
  type = list(object({
    days          = number
    storage_class = string
  }))
  default = [{ days = 90, storage_class = "GLACIER_IR" }]

  validation {
    condition     = alltrue([for transition in var.archive_transitions : contains(["STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"], transition.storage_class)])
    error_message = "A storage class is STANDARD_IA, ONEZONE_IA, INTELLIGENT_TIERING, GLACIER_IR, GLACIER or DEEP_ARCHIVE."
  }

  validation {
    condition     = alltrue([for transition in var.archive_transitions : transition.days >= 0 && floor(transition.days) == transition.days])
    error_message = "The days of a transition are a whole number, 0 or more."
  }

  validation {
    condition     = alltrue([for transition in var.archive_transitions : contains(["STANDARD_IA", "ONEZONE_IA"], transition.storage_class) ? transition.days >= 30 : true])
    error_message = "S3 moves objects to STANDARD_IA and ONEZONE_IA after 30 days or more."
  }

  validation {
    condition     = length(distinct(var.archive_transitions[*].storage_class)) == length(var.archive_transitions)
    error_message = "Two transitions have the same storage class."
  }

  # Each pair of transitions, the warmer class first.
  validation {
    condition = alltrue(flatten([
      for order in [["STANDARD_IA", "INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"]] : [
        for warmer in var.archive_transitions : [
          for colder in var.archive_transitions : colder.days >= warmer.days + (contains(["STANDARD_IA", "ONEZONE_IA"], warmer.storage_class) ? 30 : 1)
          if try(index(order, colder.storage_class) > index(order, warmer.storage_class), false)
        ]
      ]
    ]))
    error_message = "Objects move from a warmer storage class to a colder one: STANDARD_IA, INTELLIGENT_TIERING, ONEZONE_IA, GLACIER_IR, GLACIER, DEEP_ARCHIVE. Each transition is later than those to warmer classes, and at least 30 days later than one to STANDARD_IA or ONEZONE_IA."
  }
}

variable "archive_expiration_days" {
  description = "When archived objects are deleted: 1 day or more, and later than every transition. Default: never."
  type        = number
  default     = null

  validation {
    condition     = var.archive_expiration_days == null ? true : var.archive_expiration_days >= 1 && floor(var.archive_expiration_days) == var.archive_expiration_days
    error_message = "archive_expiration_days is a whole number, 1 or more."
  }
}

variable "firehose_buffering_size" {
  description = "MiB that the delivery stream collects for an object: 1 to 128."
  type        = number
  default     = 128

  validation {
    condition     = var.firehose_buffering_size >= 1 && var.firehose_buffering_size <= 128
    error_message = "firehose_buffering_size is 1 to 128 MiB."
  }
}

variable "firehose_buffering_interval" {
  description = "Seconds that the delivery stream collects for an object: 0 to 900. It is most of the datasets' delay."
  type        = number
  default     = 900

  validation {
    condition     = var.firehose_buffering_interval >= 0 && var.firehose_buffering_interval <= 900
    error_message = "firehose_buffering_interval is 0 to 900 seconds."
  }
}

variable "exporter_maximum_concurrency" {
  description = "How many exporters run at once: 2 to 1,000. More than 16 mostly wait for each other's commits."
  type        = number
  default     = 16

  validation {
    condition     = var.exporter_maximum_concurrency >= 2 && var.exporter_maximum_concurrency <= 1000
    error_message = "exporter_maximum_concurrency is 2 to 1,000."
  }
}

variable "compaction_schedule" {
  description = "When `compactor` runs: an expression of EventBridge Scheduler."
  type        = string
  default     = "rate(1 hour)"

  validation {
    condition     = can(regex("^(rate\\((1 (minute|hour|day)|([2-9]|[1-9][0-9]+) (minutes|hours|days))\\)|cron\\([^ ]+( [^ ]+){5}\\))$", var.compaction_schedule))
    error_message = "compaction_schedule is rate(1 hour), rate(2 hours), … (minutes, hours or days; singular for 1 alone), or cron(…) with six fields."
  }
}

variable "athena_bytes_scanned_cutoff" {
  description = "Bytes that one query of the workgroup may scan; Athena stops a query that exceeds it. At least 10 MB."
  type        = number
  default     = 107374182400

  validation {
    condition     = var.athena_bytes_scanned_cutoff >= 10485760
    error_message = "athena_bytes_scanned_cutoff is at least 10,485,760 bytes (10 MB)."
  }
}

variable "athena_sql_dir" {
  description = "The folder that `afterwrite model ddl --out` wrote: its views and queries are saved in Athena. Default: `athena` in `package_dir`, or the SQL of the built-in model."
  type        = string
  default     = null
}

variable "redrive_principal_arns" {
  description = "ARNs of the roles that may read the on-failure bucket, which has whole items; `*` and `?` are wildcards. Nobody else can, whatever other policies allow."
  type        = list(string)
  default     = []
}

variable "on_failure_expiration_days" {
  description = "When objects in the on-failure bucket are deleted: 1 to 90 days."
  type        = number
  default     = 14

  validation {
    condition     = var.on_failure_expiration_days >= 1 && var.on_failure_expiration_days <= 90
    error_message = "on_failure_expiration_days is 1 to 90."
  }
}
