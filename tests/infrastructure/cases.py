"""Runs the module's own tests, infra/tests/*.tftest.hcl, on a simulated provider.

Each run costs a plan, so few are planned: a run has the settings of several variables that do not touch each other, or breaks several rules.
"""

import re
from pathlib import Path

from refusals import REFUSED, refusal_problems
from terraform import Terraform

SUFFIX = ".tftest.hcl"
RUN = re.compile(r'^run "(\w+)" \{\n.*?^\}\n', re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"^  expect_failures = \[(.*?)\]\n", re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r'^variable "\w+" \{\n.*?^\}\n', re.MULTILINE | re.DOTALL)
PROVIDER = re.compile(r"^mock_provider .*?^\}\n", re.MULTILINE | re.DOTALL)
# Its runs break the limits of variables, and nothing else.
LIMITS = "limits"


def check_cases(files):
    with Terraform() as terraform:
        passed, problems = 0, []
        if LIMITS in files:
            passed, problems = judge(terraform, [LIMITS], folder=variables_alone(terraform))
        if others := [file for file in files if file != LIMITS]:
            terraform.run("init", "-backend=false")
            for file in others:
                separate_refusals(terraform.module / "tests", file)
            of_others, problems_of_others = judge(terraform, others)
            passed, problems = passed + of_others, problems + problems_of_others
        assert not problems, "the module's tests fail:\n" + "\n".join(problems)
        refused = sum(len(REFUSED.get(file, {})) for file in files)
        print(f"{passed} runs passed, {refused} were refused with the expected messages")


def name_of(file):
    return Path(file).name.removesuffix(SUFFIX)


def runs_of(text):
    """The text of each run of a file, by its name."""
    return {found[1]: found[0] for found in RUN.finditer(text)}


def expected_failures(run):
    """The addresses of the variables and resources that a run expects to fail."""
    return [address for found in EXPECTED.finditer(run) for address in re.split(r"[,\s]+", found[1]) if address]


def variables_alone(terraform):
    """A module that has the variables and nothing else; returns its folder. Nothing is planned there, so a limit is judged at once."""
    folder = terraform.folder / "variables"
    (folder / "tests").mkdir(parents=True)
    sources = "".join(file.read_text() for file in sorted(terraform.module.glob("*.tf")))
    variables = VARIABLE.findall(sources)
    assert len(variables) == len(re.findall(r"^variable ", sources, re.MULTILINE)) > 60, f"{len(variables)} variables are found"
    (folder / "variables.tf").write_text("\n".join(variables))
    cases = (terraform.module / "tests" / f"{LIMITS}{SUFFIX}").read_text()
    (folder / "tests" / f"{LIMITS}{SUFFIX}").write_text(PROVIDER.sub("", cases))
    return folder


def separate_refusals(tests, file):
    """Moves each run that refusals.py lists into a file of its own, where it expects no failure: Terraform may skip the runs after one that fails."""
    path = tests / f"{file}{SUFFIX}"
    text = path.read_text()
    runs = runs_of(text)
    head = text[: RUN.search(text).start()]
    for name, refused in REFUSED.get(file, {}).items():
        assert name in runs, f"{path.name} has no run {name}, which refusals.py lists"
        expected = expected_failures(runs[name])
        assert set(expected) == refused.keys(), f"{name} expects failures of {expected}, and refusals.py lists those of {[*refused]}"
        (tests / f"{file}-{name}{SUFFIX}").write_text(head + EXPECTED.sub("", runs[name]))
        text = text.replace(runs[name], "")
    path.write_text(text)


def judge(terraform, files, folder="."):
    """Runs files of tests; returns how many runs passed, and what is wrong."""
    tests = terraform.module / folder / "tests"
    refused = {f"{file}-{run}": messages for file in files for run, messages in REFUSED.get(file, {}).items()}
    events = terraform.test([*files, *refused], folder)
    failures = [event for event in events if event.get("diagnostic", {}).get("severity") == "error"]
    problems = [problem_of(event) for event in failures if name_of(event.get("@testfile", "")) not in refused]
    for file, messages in refused.items():
        reported = [refusal_of(event["diagnostic"]) for event in failures if name_of(event.get("@testfile", "")) == file]
        problems += refusal_problems(file, messages, reported)
    runs = {(file, run) for file in files for run in runs_of((tests / f"{file}{SUFFIX}").read_text())}
    passed = {(name_of(event["@testfile"]), event["@testrun"]) for event in events if event.get("test_run", {}).get("status") == "pass"}
    problems += [f"{file}, {run} did not pass" for file, run in sorted(runs - passed)]
    return len(passed), problems


def problem_of(event):
    """A failure, in words, with its place."""
    diagnostic = event["diagnostic"]
    place = diagnostic.get("range", {})
    where = f"{name_of(event.get('@testfile', ''))}, {event.get('@testrun', '')}"
    return f"{where}: {diagnostic['summary']}: {diagnostic.get('detail', '')} ({place.get('filename')}:{place.get('start', {}).get('line')})"


def refusal_of(diagnostic):
    """The address of what refuses a plan, and its message."""
    context = (diagnostic.get("snippet") or {}).get("context")
    if not context:
        # Not of a rule: the provider has failed, for example.
        return "terraform", f"{diagnostic['summary']}: {diagnostic.get('detail', '')}"
    kind, *names = [word.strip('"') for word in context.split()]
    address = ".".join(names if kind == "resource" else [kind, *names])
    return address, diagnostic["detail"]
