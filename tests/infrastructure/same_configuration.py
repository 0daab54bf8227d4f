"""A source table and the module in one configuration, applied to moto: at the first plan the table does not exist."""

import json
import tempfile
import zipfile
from pathlib import Path

from deployment import FUNCTIONS
from moto_process import Moto
from terraform import INFRA, Terraform

TABLE = "${aws_dynamodb_table.exams.stream_arn}"


def check_same_configuration():
    with Moto() as moto, Terraform(endpoint=moto.endpoint) as terraform, tempfile.TemporaryDirectory() as packages:
        for function in FUNCTIONS:
            with zipfile.ZipFile(Path(packages) / f"{function}.zip", "w") as package:
                package.writestr("bootstrap", function)
        (Path(packages) / "model.json").write_bytes((INFRA / "tests/exambuddy.json").read_bytes())
        root = terraform.folder / "root"
        root.mkdir()
        write(root, terraform, packages, "exams-1")
        terraform.run("init", folder=root)
        terraform.run("apply", "-auto-approve", folder=root)
        first = mapped_stream(moto, "exams-1")
        # Another name replaces the table.
        write(root, terraform, packages, "exams-2")
        terraform.run("apply", "-auto-approve", folder=root)
        assert mapped_stream(moto, "exams-2") != first
    print("a table of the same configuration: applied at once, and again when it was replaced")


def write(root, terraform, packages, table):
    provider = {"region": "eu-west-1", "access_key": "test", "secret_key": "test", "s3_use_path_style": True, "max_retries": 2}
    keys = [{"name": name, "type": "S"} for name in ("PK", "SK")]
    stream = {"stream_enabled": True, "stream_view_type": "NEW_AND_OLD_IMAGES"}
    exams = {"name": table, "billing_mode": "PAY_PER_REQUEST", "hash_key": "PK", "range_key": "SK", "attribute": keys, **stream}
    deployment = {
        "source": str(terraform.module),
        "name": "exams",
        "package_dir": str(packages),
        "tables": {"ExamBuddyTable": {"stream_arn": TABLE}},
        "create_archive": False,
        "create_alarms": False,
    }
    configuration = {
        "provider": {"aws": {**provider, "skip_credentials_validation": True}},
        "resource": {"aws_dynamodb_table": {"exams": exams}},
        "module": {"afterwrite": deployment},
    }
    (root / "main.tf.json").write_text(json.dumps(configuration))


def mapped_stream(moto, table):
    """The stream of the one mapping: that of the table."""
    (mapping,) = moto.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    stream = moto.client("dynamodb").describe_table(TableName=table)["Table"]["LatestStreamArn"]
    assert mapping["EventSourceArn"] == stream, (mapping["EventSourceArn"], stream)
    environment = moto.client("lambda").get_function_configuration(FunctionName="exams-aggregator")["Environment"]["Variables"]
    assert environment["AFTERWRITE_TABLES"] == f"ExamBuddyTable={table}", environment
    return stream
