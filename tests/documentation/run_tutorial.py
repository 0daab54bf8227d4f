"""Runs docs/LEARN.md from an empty folder, and compares everything that its commands print with what the page shows.

    run_tutorial.py PAGE            exits with 1 and the differences
    run_tutorial.py PAGE --write    writes the printed text into the page

A `toml` or `json` example is the content of the file that the last code span before it names. `sh` examples run in one shell, one
after the other; `sh dev` examples start `afterwrite dev`, on free ports, and stop the one before. A `text` example is the output of the example above. Examples
without a kind are not run. The folder of `afterwrite` must be in PATH. A program with boto3 takes the place of the AWS CLI.
"""

import difflib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

END = "end of the example"
# The port of DynamoDB on the page. `dev` uses it and the next four.
PORT = 8000
PORTS = 5
# A change is in the totals within this time, also if it is delivered again after a crash.
SETTLED_SECONDS = 30
AWS = '''#!{python}
import json, os, sys
import boto3, jmespath

words = sys.argv[3:]
names = {{"--item": "Item", "--key": "Key", "--table-name": "TableName", "--key-condition-expression": "KeyConditionExpression",
         "--expression-attribute-values": "ExpressionAttributeValues"}}
given = dict(zip(words[::2], words[1::2]))
arguments = {{names[name]: json.loads(value) if value.startswith("{{") else value for name, value in given.items() if name in names}}
assert sys.argv[1] == "dynamodb" and given.get("--output", "text") == "text"
answer = getattr(boto3.client("dynamodb"), sys.argv[2].replace("-", "_"))(**arguments)
if "--query" in given:
    rows = jmespath.search(given["--query"], answer)
    for row in rows if rows and isinstance(rows[0], list) else [rows]:
        print("\\t".join(str(value) for value in row))
'''


def examples(lines):
    """Pairs of the kind of an example and the range of its lines."""
    found, start = [], None
    for number, line in enumerate(lines):
        if line.startswith("```"):
            if start is None:
                start = number
            else:
                found.append((lines[start][3:].strip(), start + 1, number))
                start = None
    return found


def named_file(lines, start):
    """The last code span before an example."""
    spans = (re.findall(r"`([^`]+)`", line) for line in reversed(lines[:start - 1]))
    return next(found[-1] for found in spans if found)


class Shell:
    """One shell for all examples."""

    def __init__(self):
        self.process = subprocess.Popen(
            ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, script):
        self.process.stdin.write(f"{script}\necho; echo '{END}'\n")
        self.process.stdin.flush()
        printed = []
        for line in self.process.stdout:
            if line.rstrip("\n") == END:
                break
            printed.append(line.rstrip() + "\n")
        while printed and not printed[-1].strip():
            printed.pop()
        return "".join(printed)


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def free_port():
    """A port that is free, with the next four."""
    starts = (21000 + (os.getpid() * PORTS + number * PORTS) % 10000 for number in range(100))
    return next(start for start in starts if all(is_free(start + offset) for offset in range(PORTS)))


class Servers:
    """The `afterwrite dev` that runs."""

    def __init__(self, port):
        self.process, self.port = None, port

    def start(self, command):
        self.stop()
        with open("dev.log", "ab") as log:
            self.process = subprocess.Popen(["bash", "-c", f"exec {command} --port {self.port}"], stdout=log, stderr=log)
        for _ in range(600):
            if self.process.poll() is not None:
                sys.exit(f"`{command}` ended with {self.process.returncode}:\n{Path('dev.log').read_text(encoding='utf-8')}")
            if not is_free(self.port):
                return
            time.sleep(0.1)
        sys.exit(f"`{command}` does not listen")

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)
            self.process = None


def settled(shell, script, printed, expected):
    """The output of an example that reads totals, repeated while changes are on their way."""
    last = script.rstrip().splitlines()[-1]
    read = last if last == "totals" else script if script.startswith("aws dynamodb get-item") else None
    until = time.time() + SETTLED_SECONDS
    while read and printed != expected and time.time() < until:
        time.sleep(1)
        printed = shell.run(read)
    return printed


# Parts of an output that differ from run to run.
VARYING = [(r"in \d+(\.\d+)? m?s\b", "in 1 ms")]


def compared(text):
    for pattern, example in VARYING:
        text = re.sub(pattern, example, text)
    return text


def main():
    page = Path(sys.argv[1]).resolve()
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    replaced, differences = [], []
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder, "programs")
        work = Path(folder, "work")
        programs.mkdir()
        work.mkdir()
        aws = programs / "aws"
        aws.write_text(AWS.format(python=sys.executable), encoding="utf-8")
        aws.chmod(0o755)
        os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
        os.chdir(work)
        port = free_port()
        shell, servers = Shell(), Servers(port)
        script = printed = ""
        try:
            for kind, start, end in examples(lines):
                text = "".join(lines[start:end])
                own = text.replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{port}")
                if kind in ("toml", "json"):
                    Path(named_file(lines, start)).write_text(text, encoding="utf-8")
                elif kind == "sh dev":
                    servers.start(text.strip())
                elif kind == "sh":
                    script, printed = own, shell.run(own)
                elif kind == "text":
                    printed = settled(shell, script, printed, text)
                    replaced.append((start, end, printed))
                    if compared(printed) != compared(text):
                        differences += difflib.unified_diff(
                            text.splitlines(), printed.splitlines(), f"{page.name}:{start + 1}", "printed", lineterm="")
        finally:
            servers.stop()
            shell.process.kill()
    if "--write" in sys.argv:
        for start, end, printed in reversed(replaced):
            lines[start:end] = [printed]
        page.write_text("".join(lines), encoding="utf-8")
    elif differences:
        sys.exit("\n".join(differences))
    elif len(replaced) < 8:
        sys.exit(f"the page shows only {len(replaced)} results")


main()
