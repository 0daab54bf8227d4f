"""A model whose rollups are sources, applied to moto: `afterwrite doctor` finds each fault of the state table's stream, and a plan refuses a state
table that lacks it."""

import json
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

from deployment import FUNCTIONS
from moto_process import Moto
from terraform import INFRA, Terraform

STATE = "levels-state"
STREAM_CHECKS = {"stream view type", "readers", "projections", "filters of the state table"}
READERS = {"levels-aggregator", "levels-relay"}


def check_levels():
    with Moto() as moto, Terraform(endpoint=moto.endpoint) as terraform, tempfile.TemporaryDirectory() as packages:
        for function in FUNCTIONS:
            with zipfile.ZipFile(Path(packages) / f"{function}.zip", "w") as package:
                package.writestr("bootstrap", function)
        (Path(packages) / "model.json").write_bytes((INFRA / "tests/levels.json").read_bytes())
        root = terraform.folder / "root"
        root.mkdir()
        write(root, terraform, packages)
        terraform.run("init", folder=root)
        terraform.run("apply", "-auto-approve", folder=root)
        outputs = json.loads(terraform.run("output", "-json", folder=root))["levels"]["value"]
        check_applied(moto, outputs)
        check_doctor(moto, outputs)
        check_given_table(terraform, root, packages)
    print("rollups as sources: applied, each fault of the stream found, a given table without a stream refused")


def write(root, terraform, packages, **given):
    provider = {"region": "eu-west-1", "access_key": "test", "secret_key": "test", "s3_use_path_style": True, "max_retries": 2}
    deployment = {
        "source": str(terraform.module),
        "name": "levels",
        "package_dir": str(packages),
        "create_tables": True,
        "deletion_protection_enabled": False,
        "create_alarms": False,
        **given,
    }
    configuration = {
        "provider": {"aws": {**provider, "skip_credentials_validation": True}},
        "module": {"afterwrite": deployment},
        "output": {"levels": {"value": "${module.afterwrite}"}},
    }
    (root / "main.tf.json").write_text(json.dumps(configuration))


def check_applied(moto, outputs):
    table = moto.client("dynamodb").describe_table(TableName=STATE)["Table"]
    assert table["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}, table
    assert outputs["state_stream_arn"] == table["LatestStreamArn"] and outputs["table_names"] == {"Orders": "Orders"}, outputs
    mappings = state_mappings(moto, outputs)
    patterns = json.loads((INFRA / "tests/levels.json").read_text())["filters"]["@state"]["aggregate"]
    assert len(mappings) == 2, mappings
    for mapping in mappings:
        assert [filter["Pattern"] for filter in mapping["FilterCriteria"]["Filters"]] == patterns, mapping


def state_mappings(moto, outputs):
    return moto.client("lambda").list_event_source_mappings(EventSourceArn=outputs["state_stream_arn"])["EventSourceMappings"]


def check_doctor(moto, outputs):
    functions = moto.client("lambda")
    assert not faults(moto, outputs), faults(moto, outputs)
    aggregator, relay = sorted(state_mappings(moto, outputs), key=lambda mapping: mapping["FunctionArn"])
    functions.update_event_source_mapping(UUID=aggregator["UUID"], FilterCriteria={"Filters": [{"Pattern": "{}"}]})
    assert faults(moto, outputs) == {("filters of the state table", "levels-aggregator")}, faults(moto, outputs)
    functions.delete_event_source_mapping(UUID=relay["UUID"])
    found = faults(moto, outputs)
    assert ("projections", STATE) in found and len(found) == 2, found
    moto.client("dynamodb").update_table(TableName=STATE, StreamSpecification={"StreamEnabled": False})
    assert ("stream view type", STATE) in faults(moto, outputs), faults(moto, outputs)


def faults(moto, outputs):
    """What `doctor` would change in the state table's stream and its mappings."""
    binaries = os.environ.get("AFTERWRITE_TEST_BIN_DIR")
    assert binaries, "AFTERWRITE_TEST_BIN_DIR is not set: run tests/run"
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_ENDPOINT_URL": moto.endpoint,
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AFTERWRITE_MODEL": str(INFRA / "tests/levels.toml"),
        "AFTERWRITE_STATE_TABLE": STATE,
        "AFTERWRITE_BUCKET": outputs["bucket_name"],
    }
    done = subprocess.run([Path(binaries) / "afterwrite", "doctor", "--json"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), f"doctor: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    found = {(finding["check"], finding["subject"]) for finding in json.loads(done.stdout) if finding["verdict"] == "change"}
    assert (done.returncode == 1) == bool(found), done.returncode
    # moto resolves the alias to a version.
    unqualified = {(check, subject.split(":")[0]) for check, subject in found}
    return {(check, subject) for check, subject in unqualified if check in STREAM_CHECKS and subject in READERS | {STATE}}


def check_given_table(terraform, root, packages):
    """The table has no stream any more, and is not the module's."""
    terraform.run("state", "rm", "module.afterwrite.aws_dynamodb_table.state[0]", folder=root)
    write(root, terraform, packages, create_state_table=False)
    try:
        terraform.run("plan", folder=root)
    except AssertionError as refused:
        message = " ".join(str(refused).replace("│", " ").split())
        assert f"so the state table {STATE} needs a stream with the view type NEW_AND_OLD_IMAGES" in message, message
    else:
        raise AssertionError("the plan accepts a state table without a stream")
