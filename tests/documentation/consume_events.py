"""Runs the consumers of docs/COOKBOOK.md, and prints the results as JSON.

Usage: consume_events.py PAGE TABLE, with {"paid": […], "changes": […]}, the messages of events, on standard input
"""

import json
import re
import sys
from pathlib import Path

import boto3

page, name = sys.argv[1:]
messages = json.load(sys.stdin)
consumers = {}
for kind in ("search", "consumer"):
    code, = re.findall(rf"^```python {kind}\n(.*?)^```$", Path(page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(code, f"{page}: {kind}", "exec"), consumers)

table = boto3.resource("dynamodb").Table(name)
credited = [consumers["credit_points"](table, body) for body in messages["paid"]]
points = table.get_item(Key={"PK": "POINTS#c1", "SK": "-"}, ConsistentRead=True)["Item"]["points"]
lines = list(consumers["bulk_lines"](messages["changes"], lambda key: {"read": key["PK"]}))
print(json.dumps({"credited": credited, "points": int(points), "lines": lines}, default=str))
