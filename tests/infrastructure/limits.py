"""Compares planned values with the services' own models: their minima, maxima, lengths and patterns, and the names of their actions.

Every attribute that is listed here is planned by each example, but for the exceptions that are listed, too: an attribute that the module
has no longer, or has by another name, is noticed.
"""

import json
import re

from botocore.session import Session

# The attribute of a resource, and the input of a request that takes it: service, operation, path.
INPUTS = [
    ("aws_lambda_function", "function_name", "lambda", "CreateFunction", "FunctionName"),
    ("aws_lambda_function", "description", "lambda", "CreateFunction", "Description"),
    ("aws_lambda_function", "memory_size", "lambda", "CreateFunction", "MemorySize"),
    ("aws_lambda_function", "timeout", "lambda", "CreateFunction", "Timeout"),
    ("aws_lambda_function", "runtime", "lambda", "CreateFunction", "Runtime"),
    ("aws_lambda_function", "handler", "lambda", "CreateFunction", "Handler"),
    ("aws_lambda_function", "ephemeral_storage.size", "lambda", "CreateFunction", "EphemeralStorage.Size"),
    ("aws_lambda_function", "logging_config.log_format", "lambda", "CreateFunction", "LoggingConfig.LogFormat"),
    ("aws_lambda_function", "logging_config.log_group", "lambda", "CreateFunction", "LoggingConfig.LogGroup"),
    ("aws_lambda_event_source_mapping", "batch_size", "lambda", "CreateEventSourceMapping", "BatchSize"),
    ("aws_lambda_event_source_mapping", "maximum_batching_window_in_seconds", "lambda", "CreateEventSourceMapping", "MaximumBatchingWindowInSeconds"),
    ("aws_lambda_event_source_mapping", "parallelization_factor", "lambda", "CreateEventSourceMapping", "ParallelizationFactor"),
    ("aws_lambda_event_source_mapping", "maximum_retry_attempts", "lambda", "CreateEventSourceMapping", "MaximumRetryAttempts"),
    ("aws_lambda_event_source_mapping", "maximum_record_age_in_seconds", "lambda", "CreateEventSourceMapping", "MaximumRecordAgeInSeconds"),
    ("aws_lambda_event_source_mapping", "starting_position", "lambda", "CreateEventSourceMapping", "StartingPosition"),
    ("aws_lambda_event_source_mapping", "scaling_config.maximum_concurrency", "lambda", "CreateEventSourceMapping", "ScalingConfig.MaximumConcurrency"),
    ("aws_lambda_event_source_mapping", "filter_criteria.filter.pattern", "lambda", "CreateEventSourceMapping", "FilterCriteria.Filters.Pattern"),
    ("aws_lambda_function_event_invoke_config", "maximum_event_age_in_seconds", "lambda", "PutFunctionEventInvokeConfig", "MaximumEventAgeInSeconds"),
    ("aws_lambda_function_event_invoke_config", "maximum_retry_attempts", "lambda", "PutFunctionEventInvokeConfig", "MaximumRetryAttempts"),
    ("aws_lambda_function", "tracing_config.mode", "lambda", "CreateFunction", "TracingConfig.Mode"),
    ("aws_lambda_alias", "name", "lambda", "CreateAlias", "Name"),
    ("aws_lambda_alias", "description", "lambda", "CreateAlias", "Description"),
    ("aws_iam_role", "name", "iam", "CreateRole", "RoleName"),
    ("aws_iam_role_policy", "policy", "iam", "PutRolePolicy", "PolicyDocument"),
    ("aws_iam_policy", "name", "iam", "CreatePolicy", "PolicyName"),
    ("aws_iam_policy", "policy", "iam", "CreatePolicy", "PolicyDocument"),
    ("aws_dynamodb_table", "name", "dynamodb", "CreateTable", "TableName"),
    ("aws_dynamodb_table", "global_secondary_index.name", "dynamodb", "CreateTable", "GlobalSecondaryIndexes.IndexName"),
    ("aws_dynamodb_table", "ttl.attribute_name", "dynamodb", "UpdateTimeToLive", "TimeToLiveSpecification.AttributeName"),
    ("aws_s3_bucket_lifecycle_configuration", "rule.transition.storage_class", "s3", "PutBucketLifecycleConfiguration", "LifecycleConfiguration.Rules.Transitions.StorageClass"),
    ("aws_kinesis_firehose_delivery_stream", "name", "firehose", "CreateDeliveryStream", "DeliveryStreamName"),
    ("aws_kinesis_firehose_delivery_stream", "extended_s3_configuration.buffering_size", "firehose", "CreateDeliveryStream", "ExtendedS3DestinationConfiguration.BufferingHints.SizeInMBs"),
    ("aws_kinesis_firehose_delivery_stream", "extended_s3_configuration.buffering_interval", "firehose", "CreateDeliveryStream", "ExtendedS3DestinationConfiguration.BufferingHints.IntervalInSeconds"),
    ("aws_kinesis_firehose_delivery_stream", "extended_s3_configuration.prefix", "firehose", "CreateDeliveryStream", "ExtendedS3DestinationConfiguration.Prefix"),
    ("aws_scheduler_schedule", "description", "scheduler", "CreateSchedule", "Description"),
    ("aws_scheduler_schedule", "target.input", "scheduler", "CreateSchedule", "Target.Input"),
    ("aws_scheduler_schedule", "name", "scheduler", "CreateSchedule", "Name"),
    ("aws_scheduler_schedule", "schedule_expression", "scheduler", "CreateSchedule", "ScheduleExpression"),
    ("aws_scheduler_schedule", "target.retry_policy.maximum_event_age_in_seconds", "scheduler", "CreateSchedule", "Target.RetryPolicy.MaximumEventAgeInSeconds"),
    ("aws_scheduler_schedule", "target.retry_policy.maximum_retry_attempts", "scheduler", "CreateSchedule", "Target.RetryPolicy.MaximumRetryAttempts"),
    ("aws_glue_catalog_table", "name", "glue", "CreateTable", "TableInput.Name"),
    ("aws_athena_workgroup", "name", "athena", "CreateWorkGroup", "Name"),
    ("aws_athena_workgroup", "configuration.bytes_scanned_cutoff_per_query", "athena", "CreateWorkGroup", "Configuration.BytesScannedCutoffPerQuery"),
    ("aws_athena_named_query", "name", "athena", "CreateNamedQuery", "Name"),
    ("aws_athena_named_query", "description", "athena", "CreateNamedQuery", "Description"),
    ("aws_athena_named_query", "query", "athena", "CreateNamedQuery", "QueryString"),
    ("aws_cloudwatch_metric_alarm", "alarm_name", "cloudwatch", "PutMetricAlarm", "AlarmName"),
    ("aws_cloudwatch_metric_alarm", "alarm_description", "cloudwatch", "PutMetricAlarm", "AlarmDescription"),
    ("aws_cloudwatch_metric_alarm", "namespace", "cloudwatch", "PutMetricAlarm", "Namespace"),
    ("aws_cloudwatch_metric_alarm", "metric_name", "cloudwatch", "PutMetricAlarm", "MetricName"),
    ("aws_cloudwatch_metric_alarm", "period", "cloudwatch", "PutMetricAlarm", "Period"),
    ("aws_cloudwatch_metric_alarm", "evaluation_periods", "cloudwatch", "PutMetricAlarm", "EvaluationPeriods"),
    ("aws_cloudwatch_metric_alarm", "datapoints_to_alarm", "cloudwatch", "PutMetricAlarm", "DatapointsToAlarm"),
    ("aws_cloudwatch_log_group", "name", "logs", "CreateLogGroup", "logGroupName"),
    ("aws_cloudwatch_query_definition", "name", "logs", "PutQueryDefinition", "name"),
    ("aws_cloudwatch_query_definition", "query_string", "logs", "PutQueryDefinition", "queryString"),
]

# Numbers that the models of SQS and S3 do not bound, as AWS documents them: the least and the greatest.
DOCUMENTED = [
    ("aws_sqs_queue", "visibility_timeout_seconds", 0, 43_200),
    ("aws_sqs_queue", "message_retention_seconds", 60, 1_209_600),
    ("aws_s3_bucket_lifecycle_configuration", "rule.expiration.days", 1, 2**31 - 1),
    ("aws_s3_bucket_lifecycle_configuration", "rule.transition.days", 0, 2**31 - 1),
    ("aws_s3_bucket_lifecycle_configuration", "rule.abort_incomplete_multipart_upload.days_after_initiation", 1, 2**31 - 1),
]

# The attributes that an example does not plan.
UNPLANNED = {
    "new-table": set(),
    "existing-table": set(),
    # Its only reader archives every change.
    "global-table": {"aws_lambda_event_source_mapping.filter_criteria.filter.pattern"},
}

# Actions of IAM that have another name than the operation.
PERMISSIONS_ONLY = {"lambda:InvokeFunction", "s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:GetObjectVersion"}
# Actions of DynamoDB's streams have the prefix of its tables.
SERVICES = {"dynamodb": ["dynamodb", "dynamodbstreams"]}


class Limits:
    """The shapes of the services' requests."""

    def __init__(self):
        self.session = Session()
        self.models = {}

    def model(self, service):
        if service not in self.models:
            self.models[service] = self.session.get_service_model(service)
        return self.models[service]

    def shape(self, service, operation, path):
        shape = self.model(service).operation_model(operation).input_shape
        for name in path.split("."):
            if shape.type_name == "list":
                shape = shape.member
            shape = shape.members[name]
        return shape

    def check(self, example, resources):
        """Fails with all planned values that the services refuse, and if nothing planned has one of the attributes."""
        refused, unplanned = [], set()
        for kind, attribute, service, operation, path in INPUTS:
            shape, planned = self.shape(service, operation, path), values_of(resources, kind, attribute)
            refused += [f"{kind}.{attribute} = {value!r}: {operation} takes {shape.metadata}" for value in planned if not accepts(shape, value)]
            unplanned |= set() if planned else {f"{kind}.{attribute}"}
        for kind, attribute, least, greatest in DOCUMENTED:
            planned = values_of(resources, kind, attribute)
            refused += [f"{kind}.{attribute} = {value}: {least} to {greatest}" for value in planned if not least <= value <= greatest]
            unplanned |= set() if planned else {f"{kind}.{attribute}"}
        assert not refused, "\n".join(refused)
        assert unplanned == UNPLANNED[example], f"{example} plans no {sorted(unplanned)}, and {sorted(UNPLANNED[example])} are expected to be left out"


def values_of(resources, kind, attribute):
    return [value for found, values in resources if found == kind for value in reached(values, attribute.split("."))]


def reached(values, path):
    """The values at a path, through lists of blocks; values that are absent or unknown are left out."""
    if values is None:
        return
    if isinstance(values, list):
        for value in values:
            yield from reached(value, path)
    elif not path:
        yield values
    elif path[0] in values:
        yield from reached(values[path[0]], path[1:])


def accepts(shape, value):
    limits = shape.metadata
    size = value if shape.type_name in ("integer", "long") else len(str(value))
    if not limits.get("min", size) <= size <= limits.get("max", size):
        return False
    if "enum" in limits and value not in limits["enum"]:
        return False
    # Patterns with Unicode classes are Java's.
    pattern = limits.get("pattern")
    return pattern is None or "\\p{" in pattern or "\\u" in pattern or re.fullmatch(f"(?:{pattern})", str(value)) is not None


def unknown_actions(resources):
    """The actions of all planned policies that are not operations of their service."""
    session = Session()
    unknown = set()
    for document in policies(resources):
        for statement in document["Statement"]:
            actions = statement["Action"]
            for action in [actions] if isinstance(actions, str) else actions:
                service, name = action.split(":")
                if action in PERMISSIONS_ONLY or name == "*" and statement["Effect"] == "Deny":
                    continue
                models = [session.get_service_model(model) for model in SERVICES.get(service, [service])]
                if not any(name in model.operation_names for model in models):
                    unknown.add(action)
    return sorted(unknown)


def policies(resources):
    documents = [values.get(name) for _, values in resources for name in ("policy", "assume_role_policy")]
    return [json.loads(document) for document in documents if document]
