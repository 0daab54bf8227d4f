"""`afterwrite doctor` looks at a deployment that Terraform applied: what is right is healthy, and what is broken afterwards is found."""

import json
import os
import subprocess
from pathlib import Path

# Nothing runs in moto: no heartbeat was written, nothing archived.
NOTHING_RAN = {"heartbeat", "archive"}


class Doctor:
    def __init__(self, moto, outputs):
        binaries = os.environ.get("AFTERWRITE_TEST_BIN_DIR")
        assert binaries, "AFTERWRITE_TEST_BIN_DIR is not set: run tests/run"
        self.program = Path(binaries) / "afterwrite"
        self.moto = moto
        self.outputs = outputs

    def findings(self):
        """The check and the subject of everything to change."""
        renames = ",".join(f"{model}={name}" for model, name in self.outputs["table_names"].items())
        environment = {
            "PATH": os.environ["PATH"],
            "AWS_ENDPOINT_URL": self.moto.endpoint,
            "AWS_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AFTERWRITE_MODEL": "exambuddy",
            "AFTERWRITE_TABLES": renames,
            "AFTERWRITE_STATE_TABLE": self.outputs["state_table_name"],
            "AFTERWRITE_BUCKET": self.outputs["bucket_name"],
        }
        done = subprocess.run([self.program, "doctor", "--json"], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1, f"doctor: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        found = json.loads(done.stdout)
        self.healthy = {finding["check"] for finding in found if finding["verdict"] == "healthy"}
        assert all("advice" in finding for finding in found if finding["verdict"] != "healthy"), found
        return {(finding["check"], finding["subject"]) for finding in found if finding["verdict"] == "change"}

    def check(self):
        found = self.findings()
        assert {check for check, _ in found} == NOTHING_RAN, sorted(found)
        expected = {"key", "stream view type", "lookup index", "time to live", "recovery", "parked index", "readers", "projections"}
        expected |= {"filters", "bounded retries", "on-failure destination", "notification", "queue visibility", "dead-letter queue"}
        assert expected <= self.healthy, sorted(expected - self.healthy)
        self.break_parts()
        broken = {check for check, _ in self.findings()} - NOTHING_RAN
        assert broken == {"bisect", "bounded retries", "filters", "notification", "queue visibility", "time to live"}, sorted(broken)

    def break_parts(self):
        """Changes that an operator could make by hand."""
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
        queue = self.outputs["queue_urls"]["export"]
        sqs, bucket = self.moto.client("sqs"), self.outputs["bucket_name"]
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "30"})
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        # Without a prefix: files of datasets would be exported, too.
        everything = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
        self.moto.client("s3").put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=everything)
        self.moto.client("dynamodb").update_time_to_live(
            TableName=self.outputs["state_table_name"], TimeToLiveSpecification={"Enabled": False, "AttributeName": "expires_at"}
        )
