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
result = {
    "sharded": int(sums["orders"]),
    "buckets": [rollup["SK"] for rollup in buckets],
    "ranked": [rollup["SK"] for rollup in ranked],
}
print(json.dumps(result))
