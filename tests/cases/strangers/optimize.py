#!/usr/bin/env python3
"""Rewrites Delta tables as other programs do: optimize.py HOW TABLE…

HOW: `compact` (bin packing), `z_order` (another order of rows), `checkpoint` (compact, a checkpoint, and the removal of all commits before
it), `append` (one more commit of the same rows' schema without rows). Needs deltalake (PyPI).
"""

import sys

from deltalake import DeltaTable


def main():
    how, *tables = sys.argv[1:]
    for path in tables:
        table = DeltaTable(path)
        if how == "z_order":
            table.optimize.z_order(["_operation", "_changed_at"])
            continue
        table.optimize.compact()
        if how == "checkpoint":
            table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
            table.create_checkpoint()
            table.cleanup_metadata()


if __name__ == "__main__":
    main()
