# The datasets as tables of Athena, with a workgroup and the model's saved queries.

locals {
  has_athena    = local.enabled.exporter
  database_name = replace(var.name, "-", "_")
  sql_dir = coalesce(
    var.athena_sql_dir,
    length(fileset(coalesce(local.package_dir, path.module), "athena/queries/*.sql")) > 0 && var.package_dir != null
    ? "${local.package_dir}/athena" : "${path.module}/athena/${local.model.name}",
  )
  # Views are saved, too: a view is created by running its statement once, after the tables have data.
  saved_sql = {
    for file in local.has_athena ? fileset(local.sql_dir, "{views,queries}/*.sql") : [] :
    "${startswith(file, "views/") ? "create_view_" : ""}${trimsuffix(basename(file), ".sql")}" => file("${local.sql_dir}/${file}")
  }
  # Both tables of each dataset. A Delta table has its schema in its own log: engines need the location alone.
  delta_tables = local.has_athena ? merge([
    for dataset in keys(local.model.datasets) : {
      (dataset)        = "The current state: one row for each item"
      "${dataset}_log" = "A row for each change"
    }
  ]...) : {}
}

resource "aws_glue_catalog_database" "datasets" {
  count = local.has_athena ? 1 : 0

  name        = local.database_name
  description = "Datasets of ${var.name}, model ${local.model.name}"
  tags        = var.tags
}

resource "aws_glue_catalog_table" "delta" {
  for_each = local.delta_tables

  name          = each.key
  database_name = aws_glue_catalog_database.datasets[0].name
  description   = each.value
  table_type    = "EXTERNAL_TABLE"

  parameters = {
    EXTERNAL                     = "TRUE"
    classification               = "delta"
    table_type                   = "DELTA"
    "spark.sql.sources.provider" = "delta"
  }

  storage_descriptor {
    location      = "s3://${local.bucket_name}/datasets/${each.key}/"
    input_format  = "org.apache.hadoop.mapred.SequenceFileInputFormat"
    output_format = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"

    ser_de_info {
      serialization_library = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
      parameters = {
        path = "s3://${local.bucket_name}/datasets/${each.key}/"
      }
    }
  }

  lifecycle {
    # Engines keep the schema of the log here.
    ignore_changes = [parameters, storage_descriptor[0].columns]
  }
}

resource "aws_athena_workgroup" "datasets" {
  count = local.has_athena ? 1 : 0

  name          = var.name
  description   = "Queries of the datasets of ${var.name}"
  force_destroy = var.force_destroy
  tags          = merge({ Name = var.name }, var.tags)

  configuration {
    enforce_workgroup_configuration    = true
    publish_cloudwatch_metrics_enabled = true
    bytes_scanned_cutoff_per_query     = var.athena_bytes_scanned_cutoff

    engine_version {
      selected_engine_version = "Athena engine version 3"
    }

    result_configuration {
      output_location       = "s3://${local.bucket_name}/athena-results/"
      expected_bucket_owner = local.account
      encryption_configuration {
        encryption_option = var.kms_key_arn == null ? "SSE_S3" : "SSE_KMS"
        kms_key_arn       = var.kms_key_arn
      }
    }
  }
}

resource "aws_athena_named_query" "saved" {
  for_each = local.saved_sql

  name = each.key
  # The comment at the head of a query, if it has one.
  description = try(substr(trimspace(regex("^/\\*(.*?)\\*/", each.value)[0]), 0, 1024), startswith(each.key, "create_view_") ? "Run once: creates the view ${trimprefix(each.key, "create_view_")}" : null)
  workgroup   = aws_athena_workgroup.datasets[0].id
  database    = aws_glue_catalog_database.datasets[0].name
  query       = each.value
}
