# A global table. Its streams allow one reader, so one function hosts everything. One region has the deployment: the changes of all
# regions arrive in its stream. Any region may make the deletions of TTL, and deletions of another region arrive without the mark of an
# expiry: name the TTL attribute in the model (`ttl` of an entity), so that they are recognised.
#
#   infra/build --model exambuddy --out dist
#   terraform -chdir=infra/examples/global-table init
#   terraform -chdir=infra/examples/global-table apply -var package_dir="$PWD/dist" -var 'replicas=["eu-central-1"]'

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
  default     = "exams-global"
}

variable "replicas" {
  description = "The other regions of the table."
  type        = set(string)
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
  single_reader = true
  tables = {
    ExamBuddyTable = { name = "${var.name}-table", replicas = var.replicas }
  }

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
