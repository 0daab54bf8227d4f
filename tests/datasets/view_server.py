#!/usr/bin/env python3
"""Prints the rows of a dataset, repeatedly: view_server.py SQL DATASET.

SQL is one of the folders of infra/athena. Reads folders like the bucket, one per line, and prints for each one line of JSON: `current`, the rows
of the table of current rows; `now`, the rows of the view over the log; `versions`, the versions of both tables and what their
applications recorded. Rows are read by DuckDB with the checked-in SQL alone, from the files that delta_log.py finds; the package deltalake
must find the same files, and the same number of rows.
"""

import json
import pathlib
import sys

import deltalake
import duckdb

import delta_log
import independent_reader as reader


def main():
    sql, name = pathlib.Path(sys.argv[1]), sys.argv[2]
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    for line in sys.stdin:
        bucket = pathlib.Path(line.rstrip("\n"))
        versions = {}
        for table in (name, f"{name}_log"):
            reader.create_table(connection, sql / "tables" / f"{table}.sql", bucket)
            versions[table] = compare(connection, bucket / "datasets" / table, table)
        view = reader.create_view(connection, sql / "views" / f"{name}_now.sql")
        found = {"current": name, "now": view}
        found = {key: reader.rows(connection, f'SELECT * FROM "{relation}"') for key, relation in found.items()}
        print(json.dumps(found | {"versions": versions}), flush=True)


def compare(connection, folder, table):
    """Compares the table with what the package deltalake reads; returns its version and what applications recorded."""
    ours, theirs = delta_log.snapshot(folder), deltalake.DeltaTable(str(folder))
    paths = {uri.removeprefix("file://").split(f"/{folder.name}/", 1)[1] for uri in theirs.file_uris()}
    rows = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
    counted = deltalake.QueryBuilder().register("t", theirs).execute("SELECT count(*) AS n FROM t")
    counted = sum(batch.column(0)[0].as_py() for batch in counted)
    if (ours.version, set(ours.files), rows) != (theirs.version(), paths, counted):
        sys.exit(f"{folder}: {ours.version}, {sorted(ours.files)}, {rows} rows; deltalake reads "
                 f"{theirs.version()}, {sorted(paths)}, {counted} rows")
    return {"version": ours.version, "transactions": ours.transactions}


main()
