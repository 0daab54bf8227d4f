"""Runs the Python example of docs/COOKBOOK.md on a table, and prints what it reads as JSON.

Usage: read_rollups.py PAGE TABLE
"""

import json
import re
import sys
from pathlib import Path

page, name = sys.argv[1:]
examples = re.findall(r"^```python\n(.*?)^```$", Path(page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
example = {}
exec(compile("".join(examples), page, "exec"), example)

table = example["rollup_table"](name)
sums = example["read_sharded"](table, "ORDERS", "ROLLUP", 120, ["orders"])
buckets = example["read_buckets"](table, "REPO", "ROLLUP#DAY#2026-02-01", "ROLLUP#DAY#2026-02-28")
ranked = example["read_ranked"](table, "SALES", "ITEM#", "orders", 2)
group = ("score#GAME#chess", "points")
top = example["read_top"](table, *group, 3, shards=2)
around = example["read_around"](table, *group, 50, 2, shards=2)
result = {
    "sharded": int(sums["orders"]),
    "buckets": [rollup["SK"] for rollup in buckets],
    "ranked": [rollup["SK"] for rollup in ranked],
    "top": [int(rollup["points"]) for rollup in top],
    "around": [int(rollup["points"]) for rollup in around],
    "ranks": [example["read_rank"](table, *group, value, shards=2) for value in (90, 70, 50, 10)],
    "only": [int(rollup["points"]) for rollup in example["read_top"](table, "score#GAME#checkers", "points", 3)],
}
print(json.dumps(result))
