"""Runs the consumers of docs/COOKBOOK.md, and prints the results as JSON.

Usage: consume_events.py PAGE TABLE, with {"paid": […], "changes": [[…], …]}, the messages of events and batches of change records, on standard input
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

index, written = {}, []
for batch in messages["changes"]:
    position = lambda place: index.get(place, {}).get("position")
    lines = list(consumers["bulk_lines"](batch, position, lambda key: {"read": key["PK"]}))
    index.update((line["index"]["_id"], document) for line, document in zip(lines[::2], lines[1::2], strict=True))
    written.append(len(lines) // 2)
print(json.dumps({"credited": credited, "points": int(points), "written": written, "index": index}, default=str))
