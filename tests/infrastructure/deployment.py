"""The examples' surroundings: resources that exist beforehand, variables, and the state that is expected afterwards."""

import json
import tempfile
import zipfile
from pathlib import Path

from moto_process import REPLICA_REGION

INFRA = Path(__file__).resolve().parents[2] / "infra"
FUNCTIONS = ["aggregator", "relay", "invalidator", "exporter", "compactor", "verifier"]


class Deployment:
    def __init__(self, example, moto):
        self.example = example
        self.moto = moto
        self.folder = tempfile.TemporaryDirectory(prefix="afterwrite-packages-")
        self.names = {"new-table": "exams", "existing-table": "exams-production", "global-table": "exams-global"}
        self.given = {}
        self.source_key = None

    def prepare(self):
        """Zips for all functions (nothing runs them), and the resources that the example expects."""
        folder = Path(self.folder.name)
        for function in FUNCTIONS:
            with zipfile.ZipFile(folder / f"{function}.zip", "w") as package:
                package.writestr("bootstrap", function)
        (folder / "model.json").write_bytes((INFRA / "tests/exambuddy.json").read_bytes())
        if self.example == "existing-table":
            self.given = self.existing_resources()
        if self.example == "global-table":
            self.given = {"replicas": [REPLICA_REGION]}

    def existing_resources(self):
        # The table has another key than the deployment.
        self.source_key = self.new_key()
        self.moto.client("dynamodb").create_table(
            TableName="exams-table",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("PK", "SK", "GSI1PK", "GSI1SK")],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "GSI1",
                    "KeySchema": [{"AttributeName": "GSI1PK", "KeyType": "HASH"}, {"AttributeName": "GSI1SK", "KeyType": "RANGE"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
            SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": self.source_key},
        )
        key = self.new_key()
        network = self.moto.client("ec2").describe_subnets()["Subnets"][0]
        groups = self.moto.client("ec2").describe_security_groups()["SecurityGroups"]
        group = next(group for group in groups if group["VpcId"] == network["VpcId"])
        secret = self.moto.client("secretsmanager").create_secret(Name="cache", SecretString="rediss://exams:correct-horse@exams.cache:6379", KmsKeyId=key)
        return {
            "table_name": "exams-table",
            "cache_url_secret_arn": secret["ARN"],
            "cloudfront_distribution_id": "EDFDVBD6EXAMPLE",
            "vpc_subnet_ids": [network["SubnetId"]],
            "vpc_security_group_ids": [group["GroupId"]],
            "redrive_role_arn": "arn:aws:iam::123456789012:role/redrive",
            "kms_key_arn": key,
            # The model has no patterns for a reader that archives: the archive has every change.
            "stream_filters": self.patterns_of_entities(),
        }

    def source_table_key(self):
        """The SAM template's parameter for the key of the source table. Terraform reads it from the table."""
        return {"ExamBuddyTableSourceKeyArn": self.source_key} if self.source_key else {}

    def patterns_of_entities(self):
        description = json.loads((INFRA / "tests/exambuddy.json").read_text())
        return description["filters"]["ExamBuddyTable"]["aggregate,invalidate"]

    def new_key(self):
        return self.moto.client("kms").create_key()["KeyMetadata"]["Arn"]

    def variables(self):
        return {"package_dir": self.folder.name, "disposable": True, **self.given}

    def check(self, outputs, planned):
        """Compares what moto holds with what the deployment needs."""
        name = self.names[self.example]
        readers = ["aggregator", "relay"] if self.example == "new-table" else ["aggregator"]
        functions = {f"{name}-{function}" for function in readers + ["exporter", "compactor", "verifier"]}
        if self.example == "existing-table":
            functions.add(f"{name}-invalidator")
        deployed = self.moto.client("lambda").list_functions()["Functions"]
        assert {function["FunctionName"] for function in deployed} == functions, deployed
        self.check_mappings(outputs, name, readers)
        self.check_environment(deployed, name, readers)
        self.check_bucket(outputs)
        alarms = self.moto.client("cloudwatch").describe_alarms()["MetricAlarms"]
        assert len(alarms) == len([kind for kind, _ in planned if kind == "aws_cloudwatch_metric_alarm"]) > 20, len(alarms)

    def check_mappings(self, outputs, name, readers):
        stream = outputs["stream_arns"]["ExamBuddyTable"]
        mappings = self.moto.client("lambda").list_event_source_mappings()["EventSourceMappings"]
        reading = [mapping for mapping in mappings if mapping["EventSourceArn"] == stream]
        assert len(reading) == len(readers), mappings
        for mapping in reading:
            assert mapping["StartingPosition"] == "TRIM_HORIZON" and mapping["BatchSize"] == 1000, mapping
            assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"], mapping
            bounds = (mapping["MaximumRetryAttempts"], mapping["MaximumRecordAgeInSeconds"], mapping["BisectBatchOnFunctionError"])
            assert bounds == (20, 21600, True), mapping
            failures = mapping["DestinationConfig"]["OnFailure"]["Destination"]
            assert failures == f"arn:aws:s3:::{outputs['failures_bucket_name']}", mapping
            assert f":function:{name}-" in mapping["FunctionArn"], mapping
            if self.example == "existing-table":
                patterns = [pattern["Pattern"] for pattern in mapping["FilterCriteria"]["Filters"]]
                assert sorted(patterns) == sorted(self.patterns_of_entities()), mapping
                assert mapping["KMSKeyArn"] == self.given["kms_key_arn"], mapping

    def check_environment(self, deployed, name, readers):
        environments = {function["FunctionName"]: function["Environment"]["Variables"] for function in deployed}
        counting = environments[f"{name}-aggregator"]
        hosted = {1: "aggregate,invalidate,archive" if self.example == "existing-table" else "aggregate,archive", 2: "aggregate"}
        assert counting["AFTERWRITE_PROJECTIONS"] == hosted[len(readers)], counting
        assert counting["AFTERWRITE_STATE_TABLE"] == f"{name}-state", counting
        relaying = environments[f"{name}-{readers[-1]}"]
        assert relaying["AFTERWRITE_FIREHOSE_STREAM"] == f"{name}-archive", relaying
        if self.example == "existing-table":
            # The function reads the address itself: a password in its environment could be read by everyone who may describe it.
            assert relaying["AFTERWRITE_CACHE_SECRET"] == self.given["cache_url_secret_arn"] and "AFTERWRITE_CACHE_URL" not in relaying, relaying
            assert relaying["AFTERWRITE_CDN_QUEUE"].endswith("/exams-production-cdn"), relaying

    def check_bucket(self, outputs):
        s3 = self.moto.client("s3")
        policy = json.loads(s3.get_bucket_policy(Bucket=outputs["failures_bucket_name"])["Policy"])
        assert {statement["Sid"] for statement in policy["Statement"]} == {"TlsOnly", "ReadableByRedriveAlone"}, policy
        notified = s3.get_bucket_notification_configuration(Bucket=outputs["bucket_name"])["QueueConfigurations"]
        assert [queue["QueueArn"].rsplit(":", 1)[1] for queue in notified] == [outputs["queue_urls"]["export"].rsplit("/", 1)[1]], notified
