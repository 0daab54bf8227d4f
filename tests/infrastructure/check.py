"""Checks the Terraform module in infra/, without AWS.

    python check.py sources     format, references and types of the module and its examples
    python check.py cases       the module's own tests, on a simulated provider, but for the files of other checks; with names of files, these alone
    python check.py new-table   the example, applied to moto: limits, the same as the SAM template, drift of a second plan, nothing left when destroyed
    python check.py existing-table
    python check.py global-table
    python check.py new-table STATE   the same, and writes the applied state into the file STATE
    python check.py same-configuration   a table and the module in one configuration, applied to moto, and again with the table replaced
    python check.py levels      a model whose rollups are sources, applied to moto: `doctor` finds faults of the state table's stream
    python check.py events      a model with an event rule and a FIFO queue, applied to moto; with a file, the applied state is written into it
    python check.py template    cfn-lint: SAM templates with every property that those of the built-in models have, in a full run all templates; the
                                policies of all templates are within the limits of IAM
    python check.py release     the files of a release: reproducible, complete, with checksums and a signature
    python check.py scan        checkov: no findings but those that the sources waive, with a reason

Needs terraform 1.7 or later, or OpenTofu 1.8 or later, with the AWS provider, and the Python packages moto and checkov. The provider
comes from where Terraform finds it: the network, or a folder (TF_CLI_ARGS_init=-plugin-dir=FOLDER, or a mirror under /opt).
"""

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from cases import check_cases
from deployment import FUNCTIONS, Deployment
from doctor import Doctor
from events import check_events
from levels import check_levels
from limit_cases import check_limit_cases
from limits import Limits, unknown_actions
from moto_process import Moto
from parity import compare
from release import check_release
from same_configuration import check_same_configuration
from sam_template import check_policies, covering, write_template
from terraform import INFRA, Terraform, differences, resources_of, resources_of_state

# The attributes that moto does not store as they were sent, by the kind of the resource. A second plan differs in them.
LOST_BY_MOTO = {
    # It has no `logging_config`. A changed function is published again, so its version follows.
    "aws_lambda_function": {"logging_config", "qualified_arn", "qualified_invoke_arn", "version"},
    "aws_lambda_alias": {"function_version"},
    # It resolves the alias to the version.
    "aws_lambda_event_source_mapping": {"function_name"},
    # It writes the JSON with other spaces.
    "aws_sqs_queue": {"redrive_policy"},
}

# The lists of the inventory in which a deployment appears: one that moto answers wrongly would hide what is left.
CREATED = {
    *("list_tables", "list_buckets", "list_functions", "list_event_source_mappings", "list_queues", "list_roles", "list_policies"),
    *("describe_log_groups", "list_delivery_streams", "list_schedules", "get_databases", "list_work_groups", "list_named_queries"),
    *("describe_alarms", "describe_query_definitions", "list_dashboards"),
}

# The module's tests that other checks run by name.
CASES_OF_OTHER_TESTS = {"capacity", "deployment", "index-keys", "observability"}

# The built-in models.
MODELS = sorted(file.stem for file in (Path(__file__).parents[2] / "common/model/src/table/models").glob("*.toml"))
# The options of a template for two functions that read the streams, and for one.
READERS = {"two-readers": [], "one-reader": ["--single-reader"]}
# A model whose rollups are sources.
LEVELS = str(INFRA / "tests/levels.toml")


def check_sources():
    with Terraform() as terraform:
        terraform.run("fmt", "-check", "-diff", "-recursive")
        terraform.run("init", "-backend=false")
        terraform.run("validate")
        for example in ["new-table", "existing-table", "global-table"]:
            folder = f"examples/{example}"
            terraform.run("init", "-backend=false", folder=folder)
            terraform.run("validate", folder=folder)


def case_files():
    files = {file.name.removesuffix(".tftest.hcl") for file in (INFRA / "tests").glob("*.tftest.hcl")}
    assert files > CASES_OF_OTHER_TESTS, sorted(files)
    return files


def check_example(name, state_file=None):
    with Moto() as moto, Terraform(endpoint=moto.endpoint) as terraform:
        deployment = Deployment(name, moto)
        deployment.prepare()
        before = moto.inventory()
        root = terraform.new_root(name, deployment.variables())
        terraform.run("init", folder=root)

        plan = terraform.plan(root)
        planned = resources_of(plan)
        assert len(planned) > 80, f"{len(planned)} resources are planned"
        Limits().check(name, planned)
        unknown = unknown_actions(planned)
        assert not unknown, f"actions that no service has: {unknown}"

        terraform.run("apply", "-parallelism=40", str(root / "plan"), folder=root)
        created = {operation for operation, _ in moto.inventory() - before}
        expected = CREATED | ({"replicas"} if name == "global-table" else set())
        assert created == expected, f"created but not expected, or the reverse: {sorted(created ^ expected)}"
        deployment.check(terraform.outputs(root), planned)
        state = terraform.run("show", "-json", folder=root)
        compare(deployment, terraform.outputs(root), planned, resources_of_state(json.loads(state)))
        if state_file:
            assert "correct-horse" not in state, "the state has the text of a secret"
            Path(state_file).write_text(state)

        drift = [
            change
            for change in differences(terraform.plan(root))
            if not change.attributes <= LOST_BY_MOTO.get(change.kind, set()) or change.actions != ["update"]
        ]
        assert not drift, "a second plan differs:\n" + "\n".join(map(str, drift))

        if name == "new-table":
            check_switch_of_the_state_table(terraform, root)
        if name != "global-table":
            Doctor(name, moto, terraform.outputs(root)).check()
        terraform.run("destroy", "-auto-approve", folder=root)
        left = moto.inventory() - before
        assert not left, f"destroy left {sorted(left)}"
        managed = terraform.run("state", "list", folder=root)
        assert not managed.strip(), f"the state still has:\n{managed}"
        print(f"{name}: {len(planned)} resources planned, applied, planned again, destroyed")


def check_switch_of_the_state_table(terraform, root):
    """Another state table destroys the old one, unless it is taken out of Terraform's state first, as docs/OPERATE.md describes."""
    address = "module.example.module.afterwrite.aws_dynamodb_table.state[0]"
    state = root / "terraform.tfstate"
    applied = state.read_bytes()
    switch = terraform.module / "examples/new-table/switch_override.tf"
    switch.write_text('module "afterwrite" {\n  create_state_table = false\n  state_table_name = "exams-state-2"\n}\n')
    assert destroyed(terraform.plan(root)) == [address], "the switch alone does not destroy the old table: correct docs/OPERATE.md"
    terraform.run("state", "rm", address, folder=root)
    plan = terraform.plan(root)
    assert not destroyed(plan), f"the switch destroys {destroyed(plan)}"
    assert '"AFTERWRITE_STATE_TABLE": "exams-state-2"' in json.dumps(plan["planned_values"]), "the functions do not use the new table"
    switch.unlink()
    state.write_bytes(applied)


def destroyed(plan):
    return [resource["address"] for resource in plan["resource_changes"] if "delete" in resource["change"]["actions"]]


def check_scan():
    with Terraform() as terraform:
        command = [sys.executable, "-m", "checkov.main", "--directory", str(terraform.module), "--framework", "terraform"]
        command += ["--skip-download", "--compact", "--output", "json", "--skip-path", "tests"]
        report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    summary = report["summary"]
    assert summary["passed"] > 50 and summary["parsing_errors"] == 0, summary
    findings = [f"{check['check_id']} {check['resource']}: {check['check_name']}" for check in report["results"]["failed_checks"]]
    assert not findings, "findings:\n" + "\n".join(sorted(set(findings)))
    for check in report["results"]["skipped_checks"]:
        reason = check["check_result"]["suppress_comment"]
        assert len(reason) > 20, f"{check['check_id']} of {check['resource']} is waived without a reason"
    print(f"checkov: {summary['passed']} checks passed, {summary['skipped']} are waived, each with its reason")


def check_template():
    with tempfile.TemporaryDirectory(prefix="afterwrite-templates-") as folder:
        folder = Path(folder)
        templates = [folder / f"{Path(model).stem}-{readers}.yaml" for model in [*MODELS, LEVELS] for readers in READERS]
        for file, (model, options) in zip(templates, itertools.product([*MODELS, LEVELS], READERS.values()), strict=True):
            write_template(model, "--code", folder, "--out", file, *options)
            check_policies(file.read_text())
        # cfn-lint takes seconds for each. The last one has one reader for the stream of the state table, too.
        linted = templates if "AFTERWRITE_TEST_FULL" in os.environ else [*covering(templates), templates[-1]]
        page = (Path(__file__).parents[2] / "docs/COOKBOOK.md").read_text(encoding="utf-8")
        for number, recipe in enumerate(re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)):
            linted.append(folder / f"recipe{number}.yaml")
            linted[-1].write_text(recipe, encoding="utf-8")
        for function in FUNCTIONS:
            (folder / f"{function}.zip").write_bytes(b"")
        lint = [sys.executable, "-c", "from cfnlint.runner import main; main()", "--regions", "eu-west-1", "--template", *linted]
        done = subprocess.run(lint, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"cfn-lint:\n{done.stdout[-6000:]}{done.stderr[-2000:]}"
    print(f"cfn-lint: {len(linted)} templates without findings: {', '.join(file.stem for file in linted)}")


def main():
    match sys.argv[1:]:
        case ["sources"]:
            check_sources()
        case ["cases"]:
            check_limit_cases(INFRA)
            check_cases(sorted(case_files() - CASES_OF_OTHER_TESTS))
        case ["cases", *files]:
            check_cases(files)
        case ["scan"]:
            check_scan()
        case ["release"]:
            check_release()
        case ["same-configuration"]:
            check_same_configuration()
        case ["levels"]:
            check_levels()
        case ["events", *files]:
            check_events(*files)
        case ["template"]:
            check_template()
        case ["new-table" | "existing-table" | "global-table" as name, *files]:
            check_example(name, *files)
        case _:
            sys.exit(__doc__)


main()
