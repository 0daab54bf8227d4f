"""`afterwrite doctor` looks at a deployment that Terraform applied: what is right is healthy, what may not be read is not checked, and what
is broken afterwards is found."""

import json
import os
import subprocess
from pathlib import Path

from refusing_proxy import DECRYPT, RefusingProxy

# Nothing runs in moto: no heartbeat was written, and no dataset. The deployment is new, so they are not missing yet.
NOTHING_RAN = {"heartbeat", "dataset freshness"}

# The checks that need an action: they are not checked if it is refused, and everything else is as before.
NOT_CHECKED = {
    "dynamodb:DescribeTable": {"source table", "state table", "readers", "parked items"},
    "dynamodb:DescribeTimeToLive": {"time to live"},
    "dynamodb:DescribeContinuousBackups": {"recovery"},
    "dynamodb:GetItem": {"permission"},
    "dynamodb:BatchGetItem": {"permission", "heartbeat"},
    "dynamodb:Query": {"permission"},
    "dynamodb:Scan": {"parked items"},
    "dynamodb:TransactWriteItems": {"permission"},
    "lambda:ListEventSourceMappings": {"readers", "queue consumer"},
    "s3:ListBucket": {"archive", "drift", "dataset freshness", "failed records"},
    "s3:GetObject": {"permission", "drift", "dataset freshness"},
    "s3:GetBucketNotification": {"notification", "queue"},
    "sqs:GetQueueAttributes": {"queue"},
}
NOT_CHECKED_OF_EXAMPLE = {
    # A key encrypts the filters.
    "new-table": {
        "lambda:GetEventSourceMapping": {"filters"},
        "lambda:GetFunctionConfiguration": {"filters", "function", "projections", "queue consumer"},
        "sqs:GetQueueUrl": {"queue"},
        DECRYPT: {"filters"},
    },
    # A key encrypts the filters, and the environment of the one function. That has the URL of the queue of stale paths, so only the
    # dead-letter queue of it is unknown without `GetQueueUrl`.
    "existing-table": {
        "lambda:GetEventSourceMapping": {"filters"},
        "lambda:GetFunctionConfiguration": {"filters", "function", "projections", "queue consumer"},
        "sqs:GetQueueUrl": {"queue", "dead letters"},
        DECRYPT: {"filters", "function", "projections", "queue consumer"},
    },
}


class Doctor:
    def __init__(self, example, moto, outputs):
        binaries = os.environ.get("AFTERWRITE_TEST_BIN_DIR")
        assert binaries, "AFTERWRITE_TEST_BIN_DIR is not set: run tests/run"
        self.program = Path(binaries) / "afterwrite"
        self.example = example
        self.has_cdn = example == "existing-table"
        # The patterns of the example are not the model's: changes of items that match no entity are not archived.
        self.by_example = {"filters"} if example == "existing-table" else set()
        self.moto = moto
        self.outputs = outputs

    def findings(self):
        """The checks and the subjects by verdict."""
        renames = ",".join(f"{model}={name}" for model, name in self.outputs["table_names"].items())
        environment = {
            "PATH": os.environ["PATH"],
            "AWS_ENDPOINT_URL": self.proxy.endpoint,
            "AWS_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AFTERWRITE_MODEL": "exambuddy",
            "AFTERWRITE_TABLES": renames,
            "AFTERWRITE_STATE_TABLE": self.outputs["state_table_name"],
            "AFTERWRITE_BUCKET": self.outputs["bucket_name"],
        }
        done = subprocess.run([self.program, "doctor", "--json"], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), f"doctor: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        found = json.loads(done.stdout)
        assert all("advice" in finding for finding in found if finding["verdict"] != "healthy"), found
        verdicts = {"healthy": set(), "change": set(), "not_yet": set(), "not_checked": set()}
        for finding in found:
            verdicts[finding["verdict"]].add((finding["check"], finding["subject"]))
        assert done.returncode == (1 if verdicts["change"] else 0), done.returncode
        return verdicts

    def checks(self, verdict):
        return {check for check, _ in self.findings()[verdict]}

    def check(self):
        # moto ignores the condition of the policy that denies requests without TLS.
        for bucket in ("bucket_name", "failures_bucket_name"):
            self.moto.client("s3").delete_bucket_policy(Bucket=self.outputs[bucket])
        with RefusingProxy(self.moto.endpoint) as self.proxy:
            self.check_unused()
            self.use()
            self.check_healthy()
            self.check_refusals()
            self.break_parts()
            broken = self.checks("change")
            expected = {"archive prefix", "bisect", "bounded retries", "drift", "filters", "notification", "queue visibility", "time to live"}
            expected |= {"failed records", "parked items"}
            expected |= {"queue consumer"} if self.has_cdn else set()
            assert broken == expected, sorted(broken ^ expected)

    def check_unused(self):
        verdicts = self.findings()
        changed = {check for check, _ in verdicts["change"]}
        assert changed == self.by_example, sorted(changed)
        not_yet = {check for check, _ in verdicts["not_yet"]}
        assert not_yet == NOTHING_RAN | {"archive", "drift"}, sorted(not_yet)
        assert not verdicts["not_checked"], sorted(verdicts["not_checked"])

    def use(self):
        """Puts the objects of a used deployment into its bucket, and encrypts filters with a key."""
        functions = self.moto.client("lambda")
        for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
            if mapping.get("FilterCriteria"):
                functions.update_event_source_mapping(UUID=mapping["UUID"], KMSKeyArn="arn:aws:kms:eu-west-1:123456789012:key/filters")
        self.put("archive/dt=2026-02-06/hh=10/lines.gz", b"")
        self.put_report("2026-02-05T03:00:00.000Z", 5)
        self.put_report("2026-02-06T03:00:00.000Z", 0)

    def put(self, key, body):
        self.moto.client("s3").put_object(Bucket=self.outputs["bucket_name"], Key=key, Body=body)

    def put_report(self, time, drifted):
        numbers = {"sample": 0.01, "checked_targets": 1000, "drifted_targets": drifted, "undecided_targets": 1, "findings": None}
        self.put(f"reports/verify/{time}.json", json.dumps(numbers).encode())

    def check_healthy(self):
        verdicts = self.findings()
        self.changed = verdicts["change"]
        assert {check for check, _ in self.changed} == self.by_example, sorted(self.changed)
        not_yet = {check for check, _ in verdicts["not_yet"]}
        assert not_yet == NOTHING_RAN, sorted(not_yet)
        assert not verdicts["not_checked"], sorted(verdicts["not_checked"])
        expected = {"key", "stream view type", "lookup index", "time to live", "recovery", "parked index", "readers", "projections"}
        expected |= {"filters", "bounded retries", "on-failure destination", "notification", "queue visibility", "dead-letter queue"}
        expected |= {"permission", "archive", "archive prefix", "drift", "verification", "queue consumer", "dead letters", "failed records", "parked items"}
        healthy = {check for check, _ in verdicts["healthy"]}
        assert expected - self.by_example <= healthy, sorted(expected - healthy)
        queues = {subject.rsplit("-", 1)[1] for check, subject in verdicts["healthy"] if check == "queue consumer"}
        assert queues == ({"export", "cdn"} if self.has_cdn else {"export"}), queues

    def check_refusals(self):
        """Each kind of request is refused once. What needs it is not checked, and nothing is reported as wrong because of it."""
        refusals = NOT_CHECKED | NOT_CHECKED_OF_EXAMPLE[self.example]
        assert self.proxy.seen == refusals.keys() - {DECRYPT}, sorted(self.proxy.seen ^ (refusals.keys() - {DECRYPT}))
        for action, expected in refusals.items():
            self.proxy.refused = action
            verdicts = self.findings()
            unchecked = {check for check, _ in verdicts["not_checked"]}
            assert unchecked == expected, f"{action} is refused, not checked: {sorted(unchecked)}"
            wrong = verdicts["change"] - self.changed
            if action == "dynamodb:DescribeTable":
                # Without the age of the deployment, nothing is excused because the deployment is new.
                assert {check for check, _ in wrong} == NOTHING_RAN, sorted(wrong)
                wrong = set()
            assert not wrong, f"{action} is refused, and {sorted(wrong)} would be changed"
        self.proxy.refused = None

    def change_without_publishing(self, functions, arn):
        """The function's own settings have another state table; the mapping invokes a version, whose settings are right."""
        name = arn.split(":")[6]
        environment = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        variables = environment | {"AFTERWRITE_STATE_TABLE": "another-state-table"}
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})

    def break_parts(self):
        """Changes that an operator could make by hand, and what a deployment can suffer."""
        functions = self.moto.client("lambda")
        stream = self.outputs["stream_arns"]["ExamBuddyTable"]
        mapping = functions.list_event_source_mappings(EventSourceArn=stream)["EventSourceMappings"][0]
        pattern = json.dumps({"eventName": ["INSERT"]})
        functions.update_event_source_mapping(
            UUID=mapping["UUID"],
            BisectBatchOnFunctionError=False,
            MaximumRetryAttempts=-1,
            FilterCriteria={"Filters": [{"Pattern": pattern}]},
        )
        self.change_without_publishing(functions, mapping["FunctionArn"])
        queue = self.outputs["queue_urls"]["export"]
        sqs, bucket = self.moto.client("sqs"), self.outputs["bucket_name"]
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "30"})
        if self.has_cdn:
            mappings = functions.list_event_source_mappings()["EventSourceMappings"]
            draining = next(mapping for mapping in mappings if mapping["EventSourceArn"].endswith("-cdn"))
            functions.delete_event_source_mapping(UUID=draining["UUID"])
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        # Without a prefix: files of datasets would be exported, too.
        everything = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
        self.moto.client("s3").put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=everything)
        self.moto.client("dynamodb").update_time_to_live(
            TableName=self.outputs["state_table_name"], TimeToLiveSpecification={"Enabled": False, "AttributeName": "expires_at"}
        )
        failed = f"aws/lambda/{mapping['UUID']}/shardId-1/2026/02/06/2026-02-06T10.00.00-1"
        self.moto.client("s3").put_object(Bucket=self.outputs["failures_bucket_name"], Key=failed, Body=b"{}")
        parked = {"PK": {"S": "LEDGER#ExamBuddyTable#CANDIDATE#c1"}, "SK": {"S": "ATTEMPT#t1"}, "behind": {"S": "2026-02-06T10:00:00.000#1 RecordError"}}
        self.moto.client("dynamodb").put_item(TableName=self.outputs["state_table_name"], Item=parked)
        # The prefix of a delivery stream without one of its own.
        self.put("archive/2026/02/06/10/lines.gz", b"")
        self.put_report("2026-02-07T03:00:00.000Z", 3)
