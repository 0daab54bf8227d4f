"""The settings that the Terraform module and the SAM template must have in common: paths in the state, and in the template."""

from dataclasses import dataclass


@dataclass
class Same:
    """A kind of resource in both, the path of its name, and the settings that must be equal: paths in the module and in the template."""

    module: str
    template: str
    name: tuple
    settings: dict
    # Of a list within the resource, each element is compared: the path of the list, and the name of an element.
    each: tuple = ("", "")
    element: tuple = ("", "")
    # Whether 0 differs from nothing.
    is_zero_a_value: bool = False


ALARM = {
    "alarm_description": "AlarmDescription",
    "comparison_operator": "ComparisonOperator",
    "threshold": "Threshold",
    "evaluation_periods": "EvaluationPeriods",
    "datapoints_to_alarm": "DatapointsToAlarm",
    "treat_missing_data": "TreatMissingData",
    "namespace": "Namespace",
    "metric_name": "MetricName",
    "dimensions": "Dimensions",
    "statistic": "Statistic",
    "period": "Period",
    "metric_query.id": "Metrics.Id",
    "metric_query.expression": "Metrics.Expression",
    "metric_query.label": "Metrics.Label",
    "metric_query.return_data": "Metrics.ReturnData",
    "metric_query.metric.namespace": "Metrics.MetricStat.Metric.Namespace",
    "metric_query.metric.metric_name": "Metrics.MetricStat.Metric.MetricName",
    "metric_query.metric.dimensions": "Metrics.MetricStat.Metric.Dimensions",
    "metric_query.metric.stat": "Metrics.MetricStat.Stat",
    "metric_query.metric.period": "Metrics.MetricStat.Period",
}
MAPPING = {
    "starting_position": "StartingPosition",
    "batch_size": "BatchSize",
    "maximum_batching_window_in_seconds": "MaximumBatchingWindowInSeconds",
    "parallelization_factor": "ParallelizationFactor",
    "function_response_types": "FunctionResponseTypes",
    "bisect_batch_on_function_error": "BisectBatchOnFunctionError",
    "maximum_retry_attempts": "MaximumRetryAttempts",
    "maximum_record_age_in_seconds": "MaximumRecordAgeInSeconds",
    "destination_config.on_failure.destination_arn": "DestinationConfig.OnFailure.Destination",
    "filter_criteria.filter.pattern": "FilterCriteria.Filters.Pattern",
    "kms_key_arn": "KmsKeyArn",
    "scaling_config.maximum_concurrency": "ScalingConfig.MaximumConcurrency",
    "metrics_config.metrics": "MetricsConfig.Metrics",
}
FUNCTION = {
    "description": "Description",
    "runtime": "Runtime",
    "handler": "Handler",
    "architectures": "Architectures",
    "role": "Role",
    "memory_size": "MemorySize",
    "timeout": "Timeout",
    "ephemeral_storage.size": "EphemeralStorage.Size",
    "reserved_concurrent_executions": "ReservedConcurrentExecutions",
    "kms_key_arn": "KmsKeyArn",
    "tracing_config.mode": "Tracing",
    "environment.variables": "Environment.Variables",
    "vpc_config.subnet_ids": "VpcConfig.SubnetIds",
    "vpc_config.security_group_ids": "VpcConfig.SecurityGroupIds",
    "logging_config.log_format": "LoggingConfig.LogFormat",
    "logging_config.log_group": "LoggingConfig.LogGroup",
    "logging_config.application_log_level": "LoggingConfig.ApplicationLogLevel",
    "logging_config.system_log_level": "LoggingConfig.SystemLogLevel",
}
SCHEDULE = {
    "description": "Description",
    "schedule_expression": "ScheduleExpression",
    "flexible_time_window.mode": "FlexibleTimeWindow.Mode",
    "kms_key_arn": "KmsKeyArn",
    "target.arn": "Target.Arn",
    "target.role_arn": "Target.RoleArn",
    "target.input": "Target.Input",
    "target.retry_policy.maximum_event_age_in_seconds": "Target.RetryPolicy.MaximumEventAgeInSeconds",
    "target.retry_policy.maximum_retry_attempts": "Target.RetryPolicy.MaximumRetryAttempts",
    "target.dead_letter_config.arn": "Target.DeadLetterConfig.Arn",
}
QUEUE = {
    "visibility_timeout_seconds": "VisibilityTimeout",
    "message_retention_seconds": "MessageRetentionPeriod",
    "kms_master_key_id": "KmsMasterKeyId",
    "kms_data_key_reuse_period_seconds": "KmsDataKeyReusePeriodSeconds",
    "redrive_policy": "RedrivePolicy",
}
DELIVERY = {
    "server_side_encryption.key_type": "DeliveryStreamEncryptionConfigurationInput.KeyType",
    "server_side_encryption.key_arn": "DeliveryStreamEncryptionConfigurationInput.KeyARN",
    **{
        f"extended_s3_configuration.{module}": f"ExtendedS3DestinationConfiguration.{template}"
        for module, template in {
            "bucket_arn": "BucketARN",
            "role_arn": "RoleARN",
            "prefix": "Prefix",
            "error_output_prefix": "ErrorOutputPrefix",
            "compression_format": "CompressionFormat",
            "buffering_size": "BufferingHints.SizeInMBs",
            "buffering_interval": "BufferingHints.IntervalInSeconds",
            "kms_key_arn": "EncryptionConfiguration.KMSEncryptionConfig.AWSKMSKeyARN",
            "cloudwatch_logging_options.enabled": "CloudWatchLoggingOptions.Enabled",
            "cloudwatch_logging_options.log_group_name": "CloudWatchLoggingOptions.LogGroupName",
            "cloudwatch_logging_options.log_stream_name": "CloudWatchLoggingOptions.LogStreamName",
        }.items()
    },
}
STATE_TABLE = {
    "billing_mode": "BillingMode",
    "attribute.name": "AttributeDefinitions.AttributeName",
    "attribute.type": "AttributeDefinitions.AttributeType",
    "global_secondary_index.name": "GlobalSecondaryIndexes.IndexName",
    "global_secondary_index.hash_key": "GlobalSecondaryIndexes.KeySchema.AttributeName",
    "global_secondary_index.projection_type": "GlobalSecondaryIndexes.Projection.ProjectionType",
    "ttl.attribute_name": "TimeToLiveSpecification.AttributeName",
    "ttl.enabled": "TimeToLiveSpecification.Enabled",
    "point_in_time_recovery.enabled": "PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled",
    "server_side_encryption.kms_key_arn": "SSESpecification.KMSMasterKeyId",
}
WORK_GROUP = {
    f"configuration.{module}": f"WorkGroupConfiguration.{template}"
    for module, template in {
        "enforce_workgroup_configuration": "EnforceWorkGroupConfiguration",
        "publish_cloudwatch_metrics_enabled": "PublishCloudWatchMetricsEnabled",
        "bytes_scanned_cutoff_per_query": "BytesScannedCutoffPerQuery",
        "engine_version.selected_engine_version": "EngineVersion.SelectedEngineVersion",
        "result_configuration.output_location": "ResultConfiguration.OutputLocation",
        "result_configuration.expected_bucket_owner": "ResultConfiguration.ExpectedBucketOwner",
        "result_configuration.encryption_configuration.encryption_option": "ResultConfiguration.EncryptionConfiguration.EncryptionOption",
        "result_configuration.encryption_configuration.kms_key_arn": "ResultConfiguration.EncryptionConfiguration.KmsKey",
    }.items()
}
DATASET = {
    "table_type": "TableInput.TableType",
    "parameters": "TableInput.Parameters",
    "storage_descriptor.location": "TableInput.StorageDescriptor.Location",
    "storage_descriptor.input_format": "TableInput.StorageDescriptor.InputFormat",
    "storage_descriptor.output_format": "TableInput.StorageDescriptor.OutputFormat",
    "storage_descriptor.ser_de_info.serialization_library": "TableInput.StorageDescriptor.SerdeInfo.SerializationLibrary",
    "storage_descriptor.ser_de_info.parameters": "TableInput.StorageDescriptor.SerdeInfo.Parameters",
}
LIFECYCLE = {
    "status": "Status",
    "filter.prefix": "Prefix",
    "transition.days": "Transitions.TransitionInDays",
    "transition.storage_class": "Transitions.StorageClass",
    "expiration.days": "ExpirationInDays",
    "abort_incomplete_multipart_upload.days_after_initiation": "AbortIncompleteMultipartUpload.DaysAfterInitiation",
}
BUCKET_ENCRYPTION = {
    "rule.bucket_key_enabled": "BucketEncryption.ServerSideEncryptionConfiguration.BucketKeyEnabled",
    "rule.apply_server_side_encryption_by_default.sse_algorithm": "BucketEncryption.ServerSideEncryptionConfiguration.ServerSideEncryptionByDefault.SSEAlgorithm",
    "rule.apply_server_side_encryption_by_default.kms_master_key_id": "BucketEncryption.ServerSideEncryptionConfiguration.ServerSideEncryptionByDefault.KMSMasterKeyID",
}
PRIVATE = {
    "block_public_acls": "PublicAccessBlockConfiguration.BlockPublicAcls",
    "block_public_policy": "PublicAccessBlockConfiguration.BlockPublicPolicy",
    "ignore_public_acls": "PublicAccessBlockConfiguration.IgnorePublicAcls",
    "restrict_public_buckets": "PublicAccessBlockConfiguration.RestrictPublicBuckets",
}
NOTIFICATION = {
    "queue.queue_arn": "NotificationConfiguration.QueueConfigurations.Queue",
    "queue.events": "NotificationConfiguration.QueueConfigurations.Event",
    "queue.filter_prefix": "NotificationConfiguration.QueueConfigurations.Filter.S3Key.Rules.prefix",
}
INVOCATION = {
    "maximum_event_age_in_seconds": "EventInvokeConfig.MaximumEventAgeInSeconds",
    "maximum_retry_attempts": "EventInvokeConfig.MaximumRetryAttempts",
}

BUCKET = ("bucket", "BucketName")
SAME = [
    Same("aws_cloudwatch_metric_alarm", "AWS::CloudWatch::Alarm", ("alarm_name", "AlarmName"), ALARM),
    Same("aws_lambda_event_source_mapping", "AWS::Lambda::EventSourceMapping", ("name", "name"), MAPPING),
    Same("aws_lambda_function", "AWS::Serverless::Function", ("function_name", "FunctionName"), FUNCTION),
    Same("aws_lambda_function_event_invoke_config", "AWS::Serverless::Function", ("function_name", "FunctionName"), INVOCATION, is_zero_a_value=True),
    Same("aws_scheduler_schedule", "AWS::Scheduler::Schedule", ("name", "Name"), SCHEDULE),
    Same("aws_sqs_queue", "AWS::SQS::Queue", ("name", "QueueName"), QUEUE),
    Same("aws_kinesis_firehose_delivery_stream", "AWS::KinesisFirehose::DeliveryStream", ("name", "DeliveryStreamName"), DELIVERY),
    Same("aws_cloudwatch_log_group", "AWS::Logs::LogGroup", ("name", "LogGroupName"), {"retention_in_days": "RetentionInDays", "kms_key_id": "KmsKeyId"}),
    Same("aws_cloudwatch_log_stream", "AWS::Logs::LogStream", ("name", "LogStreamName"), {"log_group_name": "LogGroupName"}),
    Same("aws_cloudwatch_query_definition", "AWS::Logs::QueryDefinition", ("name", "Name"), {"log_group_names": "LogGroupNames", "query_string": "QueryString"}),
    Same("aws_dynamodb_table", "AWS::DynamoDB::Table", ("name", "TableName"), STATE_TABLE),
    Same("aws_athena_workgroup", "AWS::Athena::WorkGroup", ("name", "Name"), WORK_GROUP),
    Same("aws_athena_named_query", "AWS::Athena::NamedQuery", ("name", "Name"), {"query": "QueryString", "database": "Database", "workgroup": "WorkGroup"}),
    Same("aws_glue_catalog_database", "AWS::Glue::Database", ("name", "DatabaseInput.Name"), {}),
    Same("aws_glue_catalog_table", "AWS::Glue::Table", ("name", "TableInput.Name"), DATASET),
    Same("aws_s3_bucket", "AWS::S3::Bucket", BUCKET, {}),
    Same("aws_s3_bucket_lifecycle_configuration", "AWS::S3::Bucket", BUCKET, LIFECYCLE, ("rule", "LifecycleConfiguration.Rules"), ("id", "Id")),
    Same("aws_s3_bucket_server_side_encryption_configuration", "AWS::S3::Bucket", BUCKET, BUCKET_ENCRYPTION),
    Same("aws_s3_bucket_public_access_block", "AWS::S3::Bucket", BUCKET, PRIVATE),
    Same("aws_s3_bucket_ownership_controls", "AWS::S3::Bucket", BUCKET, {"rule.object_ownership": "OwnershipControls.Rules.ObjectOwnership"}),
    Same("aws_s3_bucket_notification", "AWS::S3::Bucket", BUCKET, NOTIFICATION),
]
