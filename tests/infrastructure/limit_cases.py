"""Compares the module's limits with its tests: each limit needs a case that it refuses.

A limit is one comparison of a `validation`, `precondition` or `postcondition`: conditions that `&&` joins are as many limits. A case is a
`run` that expects the failure of the variable or the resource, or one of the messages that refusals.py lists for the run. Cases do not name a limit,
so they are counted by variable and resource.
"""

import re
from collections import Counter

from cases import expected_failures, name_of, runs_of
from refusals import REFUSED

BLOCK = re.compile(r'^(variable|resource|data) "(\w+)"(?: "(\w+)")? \{$')
CHECK = re.compile(r"^ +(?:validation|precondition|postcondition) \{$")


def limits(module):
    """How many limits each variable and resource has, by its address."""
    found = Counter()
    for file in sorted(module.glob("*.tf")):
        address = condition = None
        for line in file.read_text().splitlines():
            if block := BLOCK.match(line):
                kind, first, second = block.groups()
                address = {"variable": f"var.{first}", "resource": f"{first}.{second}", "data": f"data.{first}.{second}"}[kind]
            elif CHECK.match(line):
                condition = ""
            elif condition is not None and line.strip().startswith("error_message"):
                assert condition, f"{file.name}: a check of {address} without a condition"
                found[address] += 1 + condition.count("&&")
                condition = None
            elif condition is not None and not line.strip().startswith("#"):
                condition += line
    return found


def cases(module):
    """How many failures of each variable and resource are expected: by a run, or by its rules in refusals.py."""
    found = Counter()
    for file in sorted((module / "tests").glob("*.tftest.hcl")):
        for run, text in runs_of(file.read_text()).items():
            refused = REFUSED.get(name_of(file), {}).get(run, {})
            found.update({address: len(refused.get(address, [address])) for address in expected_failures(text)})
    return found


def check_limit_cases(module):
    limited, expected = limits(module), cases(module)
    assert limited.total() > 80, f"{limited.total()} limits are found"
    missing = [f"{address}: {count} limits, {expected[address]} cases" for address, count in limited.items() if expected[address] < count]
    assert not missing, "limits without a failing case in infra/tests:\n" + "\n".join(missing)
    unlimited = sorted(expected.keys() - limited.keys())
    assert not unlimited, f"cases for addresses without a limit: {unlimited}"
    print(f"{limited.total()} limits, {expected.total()} failing cases")
