#!/usr/bin/env python3
"""Prints the rows of a view, repeatedly: view_server.py SQL VIEW.

SQL is one of the folders of infra/athena. Reads folders like the bucket, one per line, and prints the rows of the view in each as one line
of JSON, read by DuckDB with the checked-in SQL alone.
"""

import json
import pathlib
import sys

import duckdb

import independent_reader as reader


def main():
    sql, view = pathlib.Path(sys.argv[1]), sys.argv[2]
    for line in sys.stdin:
        connection = duckdb.connect(config={"threads": 1})
        connection.execute("SET TimeZone = 'UTC'")
        reader.create_log(connection, sql / "tables" / f"{view}_log.sql", pathlib.Path(line.rstrip("\n")))
        reader.create_view(connection, sql / "views" / f"{view}.sql")
        print(json.dumps(reader.rows(connection, f'SELECT * FROM "{view}"')), flush=True)


main()
