# A table that exists. It needs a stream with the view type NEW_AND_OLD_IMAGES; the plan checks it, its keys and its indexes. Another
# consumer reads the stream already, so one function hosts everything; and cache keys and CloudFront paths are removed, too.
#
#   infra/build --model exambuddy --out dist
#   terraform -chdir=infra/examples/existing-table init
#   terraform -chdir=infra/examples/existing-table apply -var package_dir="$PWD/dist" -var table_name=exams-production …

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
  default     = "exams-production"
}

variable "table_name" {
  description = "The table."
  type        = string
}

variable "cache_url_secret_arn" {
  description = "The secret with the cache's address, for example rediss://user:password@exams.serverless.euw1.cache.amazonaws.com:6379."
  type        = string
}

variable "cloudfront_distribution_id" {
  description = "The distribution whose paths are invalidated."
  type        = string
}

variable "vpc_subnet_ids" {
  description = "Private subnets from which the cache can be reached."
  type        = list(string)
}

variable "vpc_security_group_ids" {
  description = "The security groups that the cache's group admits."
  type        = list(string)
}

variable "redrive_role_arn" {
  description = "The role that may read failed records."
  type        = string
}

variable "kms_key_arn" {
  description = "The key that encrypts everything."
  type        = string
  default     = null
}

variable "stream_filters" {
  description = "Filter patterns of the stream in place of the model's, for a table with items that are neither derived from nor archived."
  type        = list(string)
  default     = null
}

variable "disposable" {
  description = "Whether `terraform destroy` may remove tables and buckets with their contents. For trying it out."
  type        = bool
  default     = false
}

module "afterwrite" {
  source = "../.."

  name         = var.name
  package_dir  = var.package_dir
  architecture = var.architecture
  tables       = { ExamBuddyTable = { name = var.table_name } }

  single_reader        = true
  other_stream_readers = 1
  stream_filters       = var.stream_filters == null ? {} : { ExamBuddyTable = var.stream_filters }

  cache_url_secret_arn       = var.cache_url_secret_arn
  cache_cluster              = true
  vpc_subnet_ids             = var.vpc_subnet_ids
  vpc_security_group_ids     = var.vpc_security_group_ids
  cloudfront_distribution_id = var.cloudfront_distribution_id

  kms_key_arn            = var.kms_key_arn
  redrive_principal_arns = [var.redrive_role_arn]

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
