#!/usr/bin/env python3
"""Fails if a package is compiled twice for the commands of the README, of docs/DATASETS.md and of `.ci/run`.

Cargo compiles a package again if a command needs it with other features than an earlier command, or if that holds for one of its
dependencies. Cargo's plan of a command (`--unit-graph`) lists what it compiles, without compiling it.

    .ci/compiled_once.py            every command
    .ci/compiled_once.py --list     and what each adds to the commands before it
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECK = ["--release", "--workspace", "--all-targets", "--features", "sql"]
# The commands in their order, and the Cargo command that has the same plan: Clippy and rustdoc compile what `check` compiles.
COMMANDS = {
    "cargo run --release -- demo": ["build", "--release", "--bin", "afterwrite"],
    "tests/run": ["build", "--release", "--bins", "--tests"],
    "cargo clippy, everything": ["check", *CHECK],
    "cargo clippy, the command line without SQL": ["check", "--release", "--workspace", "--lib", "--bins"],
    "tests/run --full": ["build", "--release", "--bins", "--tests", "--features", "sql"],
    "cargo run --release --features sql -- query": ["build", "--release", "--bin", "afterwrite", "--features", "sql"],
    "cargo doc": ["check", "--release", "--lib", "--features", "sql"],
}


def plan(command):
    """The units of a command: pairs of a description and the digest of the unit with all its dependencies."""
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1"}
    line = ["cargo", *command, "--locked", "--unit-graph", "-Z", "unstable-options"]
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(line)} failed:\n{done.stderr}")
    units = json.loads(done.stdout)["units"]
    digests = {}

    def digest(index):
        if index not in digests:
            unit = units[index]
            own = (description(unit), tuple(unit["features"]))
            digests[index] = hash((own, tuple(sorted(digest(needed["index"]) for needed in unit["dependencies"]))))
        return digests[index]

    return [(description(unit), frozenset(unit["features"]), digest(index)) for index, unit in enumerate(units)]


def description(unit):
    """The optimisation separates what a build script or a macro needs from the same package in a program."""
    target, profile = unit["target"], unit["profile"]
    return unit["pkg_id"], target["name"], tuple(target["kind"]), unit["mode"], profile["opt_level"]


def is_own(described):
    """Whether it is a package of the workspace. Those are compiled again as tests, and where a feature of theirs differs."""
    return described[0].startswith("path+file://")


def main():
    compiled = {}
    problems = []
    for name, command in COMMANDS.items():
        added = 0
        for described, features, digest in plan(command):
            known = compiled.setdefault(described, (digest, features, name))
            added += known[2] == name
            if known[0] != digest and not is_own(described) and "custom-build" not in described[2]:
                problems.append((described, known[1] ^ features, known[2], name))
        if "--list" in sys.argv:
            print(f"{added:4} units first for: {name}")
    for (package, _, kind, mode, _), features, first, second in sorted(problems, key=lambda problem: not problem[1]):
        difference = f"features {', '.join(sorted(features))}" if features else "a dependency differs"
        print(f"{package.rsplit('/', 1)[-1]} ({'/'.join(kind)}, {mode}): {difference}: for `{first}`, and again for `{second}`")
    if problems:
        sys.exit(
            f"{len(problems)} units of packages are compiled twice. Give every command the same features: in the workspace's "
            "dependencies, or as ordinary dependencies of tests/Cargo.toml."
        )


main()
