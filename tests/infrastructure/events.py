"""A model with an event rule, applied to moto with a FIFO queue as its target: the functions know the queue and may send to it, and an alarm looks at
events that could not be sent."""

import json
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

from deployment import FUNCTIONS
from moto_process import Moto
from terraform import INFRA, Terraform

# A queue of another team.
QUEUE = "attempts.fifo"
PUBLISHERS = ["exams-relay", "exams-invalidator"]


def check_events(state_file=None):
    with Moto() as moto, Terraform(endpoint=moto.endpoint) as terraform, tempfile.TemporaryDirectory() as packages:
        packages = Path(packages)
        for function in FUNCTIONS:
            with zipfile.ZipFile(packages / f"{function}.zip", "w") as package:
                package.writestr("bootstrap", function)
        (packages / "model.json").write_text(description(packages))
        sqs = moto.client("sqs")
        url = sqs.create_queue(QueueName=QUEUE, Attributes={"FifoQueue": "true"})["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        root = terraform.folder / "root"
        root.mkdir()
        write(root, terraform, packages, arn)
        terraform.run("init", folder=root)
        terraform.run("apply", "-auto-approve", folder=root)
        check_applied(moto, arn)
        if state_file:
            Path(state_file).write_text(terraform.run("show", "-json", folder=root))
    print(f"events: applied, {' and '.join(PUBLISHERS)} know {QUEUE}")


def description(folder):
    """The description of the model with the rule, by the release binary."""
    binaries = os.environ.get("AFTERWRITE_TEST_BIN_DIR")
    assert binaries, "AFTERWRITE_TEST_BIN_DIR is not set: run tests/run"
    built_in = INFRA.parent / "common/model/src/table/models/exambuddy.toml"
    model = folder / "model.toml"
    model.write_text(built_in.read_text() + Path(__file__).with_name("events.toml").read_text())
    show = [Path(binaries) / "afterwrite", "model", "show", model, "--json"]
    return subprocess.run(show, capture_output=True, text=True, check=True).stdout


def write(root, terraform, packages, arn):
    provider = {"region": "eu-west-1", "access_key": "test", "secret_key": "test", "s3_use_path_style": True, "max_retries": 2}
    deployment = {
        "source": str(terraform.module),
        "name": "exams",
        "package_dir": str(packages),
        "create_tables": True,
        "deletion_protection_enabled": False,
        "events_arn": arn,
    }
    configuration = {
        "provider": {"aws": {**provider, "skip_credentials_validation": True}},
        "module": {"afterwrite": deployment},
    }
    (root / "main.tf.json").write_text(json.dumps(configuration))


def check_applied(moto, arn):
    deployed = moto.client("lambda").list_functions()["Functions"]
    settings = {function["FunctionName"]: function["Environment"]["Variables"].get("AFTERWRITE_EVENTS") for function in deployed}
    assert [name for name in PUBLISHERS if settings[name] != arn] == [], settings
    alarms = moto.client("cloudwatch").describe_alarms(AlarmNames=["exams-events-failed"])["MetricAlarms"]
    assert len(alarms) == 1 and alarms[0]["MetricName"] == "EventsFailed", alarms
