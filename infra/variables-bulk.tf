# Variables of the bulk backfill.

variable "bulk_backfill" {
  description = "Whether the bulk backfill is deployed: a function and a state machine that build a new state table from table exports in the archive's bucket."
  type        = bool
  default     = false
}

variable "bulk_concurrency" {
  description = "The most data files that are counted at once."
  type        = number
  default     = 200

  validation {
    condition     = var.bulk_concurrency >= 1 && var.bulk_concurrency <= 10000
    error_message = "bulk_concurrency is 1 to 10,000."
  }
}

variable "bulk_partitions" {
  description = "The parts that rollups are merged in."
  type        = number
  default     = 64

  validation {
    condition     = var.bulk_partitions >= 1 && var.bulk_partitions <= 256
    error_message = "bulk_partitions is 1 to 256."
  }
}

variable "bulk_export_prefix" {
  description = "The prefix of table exports in the archive's bucket, without a slash at its end."
  type        = string
  default     = "AWSDynamoDB"

  validation {
    condition     = length(var.bulk_export_prefix) > 0 && !endswith(var.bulk_export_prefix, "/")
    error_message = "bulk_export_prefix is a prefix without a slash at its end."
  }
}
