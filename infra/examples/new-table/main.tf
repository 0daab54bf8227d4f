# A new table: created with the keys and indexes that the model needs, and kept in step from its first write.
#
#   infra/build --model exambuddy --out dist
#   terraform -chdir=infra/examples/new-table init
#   terraform -chdir=infra/examples/new-table apply -var package_dir="$PWD/dist"

terraform {
  required_version = ">= 1.7"
}

variable "package_dir" {
  description = "The folder that infra/build wrote."
  type        = string
}

variable "architecture" {
  description = "The instruction set of the functions: arm64 or x86_64. Default: the zips' own."
  type        = string
  default     = null
}

variable "name" {
  description = "The name of the deployment."
  type        = string
  default     = "exams"
}

variable "alarm_topic_arn" {
  description = "The SNS topic that alarms notify; default: none."
  type        = string
  default     = null
}

variable "disposable" {
  description = "Whether `terraform destroy` may remove tables and buckets with their contents. For trying it out."
  type        = bool
  default     = false
}

module "afterwrite" {
  source = "../.."

  name          = var.name
  package_dir   = var.package_dir
  architecture  = var.architecture
  create_tables = true
  tables = {
    ExamBuddyTable = { name = "${var.name}-table", ttl_attribute = "expires_at" }
  }
  alarm_actions = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]

  deletion_protection_enabled = !var.disposable
  force_destroy               = var.disposable

  tags = { application = var.name }
}

output "afterwrite" {
  description = "What the deployment consists of."
  value       = module.afterwrite
}

output "cli_exports" {
  description = "The settings of the command line, for a shell: eval \"$(terraform output -raw cli_exports)\"."
  value       = module.afterwrite.cli_exports
}
