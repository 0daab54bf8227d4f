"""The files of a Delta table, by the text of the Delta protocol (PROTOCOL.md, "Action Reconciliation"), for tables in a local folder.

    snapshot(table)            the newest version: Snapshot(version, files, transactions, schema)
    snapshot(table, version)   an earlier one, from the commits alone

Reads `_last_checkpoint`, the classic checkpoint that it names (with DuckDB), and the commits after it. Knows nothing of Afterwrite.
"""

import collections
import json

import duckdb

Snapshot = collections.namedtuple("Snapshot", "version files transactions schema")


def snapshot(table, until=None):
    log = table / "_delta_log"
    files, transactions, schema, version = {}, {}, None, -1

    def apply(action):
        nonlocal schema
        if action.get("protocol") and action["protocol"]["minReaderVersion"] > 1:
            raise ValueError("reader version")
        if action.get("metaData"):
            schema = json.loads(action["metaData"]["schemaString"])
        if action.get("txn"):
            transactions[action["txn"]["appId"]] = action["txn"]["version"]
        if action.get("remove"):
            files.pop(action["remove"]["path"], None)
        if action.get("add"):
            files[action["add"]["path"]] = action["add"]

    pointer = log / "_last_checkpoint"
    if until is None and pointer.exists():
        version = json.loads(pointer.read_text())["version"]
        rows = duckdb.sql(f"SELECT to_json(c) FROM read_parquet('{log}/{version:020}.checkpoint.parquet') AS c").fetchall()
        for (row,) in rows:
            apply(json.loads(row))
    while (until is None or version < until) and (commit := log / f"{version + 1:020}.json").exists():
        for line in commit.read_text().splitlines():
            apply(json.loads(line))
        version += 1
    return Snapshot(version, files, transactions, schema)
