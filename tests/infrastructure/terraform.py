"""Runs Terraform, or OpenTofu, on a copy of the module, so that nothing is written into the repository."""

import fcntl
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

INFRA = Path(__file__).resolve().parents[2] / "infra"
# The provider is installed here, once for all checks.
INSTALLED = INFRA.parent / "target/tools/aws-provider"
PROVIDERS = ["registry.terraform.io/hashicorp/aws", "registry.opentofu.org/hashicorp/aws"]
# Fewer garbage collections, which take a quarter of the time otherwise.
MEMORY = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
# A command that hangs, for example because moto lacks a call that the provider repeats, must not hang the tests.
MAX_SECONDS = 480


class Terraform:
    def __init__(self, endpoint=None):
        self.program = os.environ.get("AFTERWRITE_TEST_TERRAFORM") or shutil.which("terraform") or shutil.which("tofu")
        assert self.program, (
            "neither terraform nor tofu is installed: install Terraform 1.7 or later (developer.hashicorp.com/terraform/install) "
            "or OpenTofu 1.8 or later (opentofu.org/docs/intro/install), or set AFTERWRITE_TEST_TERRAFORM to its path"
        )
        self.endpoint = endpoint
        self.provider = None
        self.attached = {}

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="afterwrite-infra-"))
        self.module = self.folder / "infra"
        shutil.copytree(INFRA, self.module, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
        return self

    def __exit__(self, *_):
        if self.provider:
            self.provider.kill()
            self.provider.wait()
            self.provider.stdout.close()
        shutil.rmtree(self.folder)

    def start_provider(self):
        """Starts the provider for all commands: each command would verify its 700 MB and start it several times, a test once for each run."""
        program = self.installed_provider()
        # A provider that is configured again does not accept a bundle of certificates again. The endpoint has none.
        environment = {name: value for name, value in self.environment().items() if name != "AWS_CA_BUNDLE"}
        self.provider = subprocess.Popen([program, "-debug"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.provider.stdout:
            if found := re.search(r"TF_REATTACH_PROVIDERS='(.+)'", line):
                (process,) = json.loads(found[1]).values()
                self.attached = {"TF_REATTACH_PROVIDERS": json.dumps(dict.fromkeys(PROVIDERS, process))}
                return
        raise AssertionError(f"{program} -debug does not start")

    def installed_provider(self):
        """The provider's program, installed for the module's constraints."""
        INSTALLED.mkdir(parents=True, exist_ok=True)
        with (INSTALLED / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            constraints = INSTALLED / "versions.tf"
            wanted = (INFRA / "versions.tf").read_text()
            if not constraints.exists() or constraints.read_text() != wanted or not provider_programs():
                shutil.rmtree(INSTALLED / ".terraform", ignore_errors=True)
                constraints.write_text(wanted)
                self.run("init", "-upgrade", folder=INSTALLED)
            (program,) = provider_programs()
            return program

    def environment(self):
        environment = {**os.environ, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", **MEMORY, **self.attached}
        # A setting of the machine that names a file that is not there only causes warnings.
        if not os.path.exists(environment.get("TF_CLI_CONFIG_FILE", "")):
            environment.pop("TF_CLI_CONFIG_FILE", None)
        mirrors = sorted(glob.glob("/opt/*/*/hashicorp/aws"))
        if mirrors and "TF_CLI_ARGS_init" not in environment:
            environment["TF_CLI_ARGS_init"] = f"-plugin-dir={Path(mirrors[0]).parents[2]}"
        if self.endpoint:
            environment["AWS_ENDPOINT_URL"] = self.endpoint
        return environment

    def run(self, command, *arguments, folder="."):
        line, done = self.carry_out(command, *arguments, folder=folder)
        assert done.returncode == 0, failure(line, done)
        return done.stdout

    def test(self, files, folder="."):
        """The events of files of tests. A run may fail."""
        line, done = self.carry_out("test", "-json", *(f"-filter=tests/{file}.tftest.hcl" for file in files), folder=folder)
        try:
            return [json.loads(text) for text in done.stdout.splitlines()]
        except json.JSONDecodeError as error:
            raise AssertionError(failure(line, done)) from error

    def carry_out(self, command, *arguments, folder="."):
        """Runs a command; returns its line, and how it ended."""
        if folder != INSTALLED and self.provider is None and command != "fmt":
            self.start_provider()
        line = [self.program, f"-chdir={self.module / folder}", command, *arguments]
        if command != "show" and command != "output" and command != "fmt":
            line.append("-no-color")
        done = subprocess.run(line, env=self.environment(), capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
        return line, done

    def new_root(self, example, variables):
        """A configuration that applies an example to the endpoint; returns its folder."""
        root = self.folder / f"root-{example}"
        root.mkdir()
        source = {"source": f"{self.module}//examples/{example}", **variables}
        provider = {
            "region": "eu-west-1",
            "access_key": "test",
            "secret_key": "test",
            "s3_use_path_style": True,
            "skip_credentials_validation": True,
            # A call that moto lacks fails at once.
            "max_retries": 2,
        }
        configuration = {
            "provider": {"aws": provider},
            "module": {"example": source},
            "output": {"example": {"value": "${module.example.afterwrite}"}},
        }
        (root / "main.tf.json").write_text(json.dumps(configuration))
        return root

    def plan(self, root):
        self.run("plan", f"-out={root / 'plan'}", folder=root)
        return json.loads(self.run("show", "-json", str(root / "plan"), folder=root))

    def outputs(self, root):
        return json.loads(self.run("output", "-json", folder=root))["example"]["value"]


def provider_programs():
    return glob.glob(f"{INSTALLED}/.terraform/providers/*/hashicorp/aws/*/*/terraform-provider-aws*")


@dataclass
class Change:
    """How a second plan would change a resource."""

    address: str
    kind: str
    actions: list
    attributes: set

    def __str__(self):
        return f"{self.address}: {'/'.join(self.actions)} {', '.join(sorted(self.attributes))}"


def differences(plan):
    """The changes of a plan, each with the attributes that differ."""
    changes = []
    for resource in plan["resource_changes"]:
        change = resource["change"]
        if change["actions"] in (["no-op"], ["read"]):
            continue
        before, after, unknown = change["before"] or {}, change["after"] or {}, change["after_unknown"] or {}
        differing = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        differing |= {name for name, value in unknown.items() if value is True}
        changes.append(Change(resource["address"], resource["type"], change["actions"], differing))
    return changes


def resources_of(plan):
    """The planned resources of all modules: pairs of a kind and its values."""
    return list(managed(plan["planned_values"]["root_module"]))


def resources_of_state(state):
    """The applied resources of all modules: pairs of a kind and its values."""
    return list(managed(state["values"]["root_module"]))


def managed(module):
    for resource in module.get("resources", []):
        if resource["mode"] == "managed":
            yield resource["type"], resource.get("values", {})
    for child in module.get("child_modules", []):
        yield from managed(child)


def failure(line, done):
    """The line of a command that has failed, and the end of its output."""
    output = done.stdout + done.stderr
    return f"{' '.join(map(str, line))} failed:\n{output[-6000:]}"
