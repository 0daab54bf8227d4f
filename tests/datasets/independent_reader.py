#!/usr/bin/env python3
"""Queries the datasets in DuckDB, with the SQL that is checked in for Athena and nothing else of Afterwrite.

    independent_reader.py BUCKET SQL [--views] [--only NAME …]

BUCKET is a folder like the bucket (it has datasets/<name>/dt=<day>/….parquet), SQL one of the folders of
infra/athena. Every table, view and query in it is parsed as Athena's; views and queries are translated by sqlglot. Prints one
JSON object: `statements`, the files that were parsed; `queries`, the rows of every saved query by its name, in their order; with
--views also `views`, the rows of every view in the order of their JSON text. Values are written as by `afterwrite query --json`,
except that a decimal with digits after its point is written as the nearest double: 4.0 instead of 4.00.

Fails if a file has a column whose type Athena reads differently (unsigned, INT96, nanoseconds), or that is not in the table.

Needs duckdb and sqlglot (PyPI).
"""

import argparse
import datetime
import decimal
import json
import math
import pathlib
import sys

import duckdb
import sqlglot
from sqlglot import exp


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("bucket", type=pathlib.Path)
    arguments.add_argument("sql", type=pathlib.Path)
    arguments.add_argument("--views", action="store_true")
    arguments.add_argument("--only", nargs="*", help="names of saved queries; default: all")
    options = arguments.parse_args()

    connection = duckdb.connect()
    # Athena's times are in UTC.
    connection.execute("SET TimeZone = 'UTC'")
    tables, views = sql_files(options.sql, "tables"), sql_files(options.sql, "views")
    # A model without saved queries does not have a folder for them.
    queries = sql_files(options.sql, "queries") if (options.sql / "queries").exists() else []
    for file in tables:
        create_log(connection, file, options.bucket)
    names = [create_view(connection, file) for file in views]
    result = {"statements": [file.relative_to(options.sql).as_posix() for file in tables + views + queries], "queries": {}}
    for file in queries:
        query = translated(file).sql("duckdb")
        if options.only is None or file.stem in options.only:
            result["queries"][file.stem] = rows(connection, query)
    if options.views:
        result["views"] = {
            name: sorted(rows(connection, f'SELECT * FROM "{name}"'), key=json.dumps) for name in names
        }
    json.dump(result, sys.stdout, indent=1, allow_nan=False)
    print()


def sql_files(folder, kind):
    files = sorted((folder / kind).glob("*.sql"))
    if not files:
        sys.exit(f"{folder / kind} does not have .sql files")
    return files


def translated(file):
    """The statement of a file, parsed as Athena's."""
    statements = sqlglot.parse(file.read_text(), read="athena")
    if len(statements) != 1 or isinstance(statements[0], exp.Command):
        sys.exit(f"{file}: not one statement that sqlglot knows")
    return statements[0]


def create_log(connection, file, bucket):
    """Creates a table of the files at the statement's location, with the statement's columns and types."""
    table = translated(file)
    name = table.this.this.name
    location = table.find(exp.LocationProperty).this.name
    folder = location.removeprefix("s3://${bucket}/").rstrip("/")
    partitions = [column.name for column in table.find(exp.PartitionedByProperty).find_all(exp.ColumnDef)]
    columns = {column.name: column.args["kind"].sql("duckdb") for column in table.this.expressions}
    if partitions != ["dt"] or name != f"{pathlib.PurePath(folder).name}_log" or "dt" in columns:
        sys.exit(f"{file}: not the expected table: {name}, {location}, {partitions}")
    typed = ", ".join(f'cast(NULL AS {kind}) AS "{column}"' for column, kind in columns.items())
    connection.execute(f'CREATE VIEW "{name}_typed" AS SELECT {typed}, cast(NULL AS VARCHAR) AS dt WHERE false')
    source = f'SELECT * FROM "{name}_typed"'
    pattern = f"{bucket}/{folder}/dt=*/*.parquet"
    if any((bucket / folder).glob("dt=*/*.parquet")):
        refuse_unfit_columns(connection, pattern)
        quoted = pattern.replace("'", "''")
        files = f"read_parquet('{quoted}', hive_partitioning = true, hive_types = {{'dt': VARCHAR}}, union_by_name = true)"
        found = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {files}").fetchall()]
        unknown = [column for column in found if column not in columns and column != "dt"]
        if unknown:
            sys.exit(f"{pattern}: columns that the table does not have: {', '.join(unknown)}")
        cast = ", ".join(f'cast("{column}" AS {columns[column]}) AS "{column}"' for column in found if column != "dt")
        source += f" UNION ALL BY NAME SELECT {cast}, dt FROM {files}"
    connection.execute(f'CREATE VIEW "{name}" AS {source}')


def refuse_unfit_columns(connection, pattern):
    schema = connection.execute(
        "SELECT DISTINCT name, type, coalesce(converted_type, ''), coalesce(cast(logical_type AS VARCHAR), '')"
        " FROM parquet_schema(?)",
        [pattern],
    ).fetchall()
    unfit = [
        f"{name} ({kind} {converted} {logical})"
        for name, kind, converted, logical in schema
        if kind == "INT96" or converted.startswith("UINT") or "NANOS=NANO" in logical.upper()
    ]
    if unfit:
        sys.exit(f"{pattern}: Athena reads the types of these columns differently: {', '.join(unfit)}")


def create_view(connection, file):
    view = translated(file)
    connection.execute(view.sql("duckdb"))
    return view.this.name


def rows(connection, sql):
    result = connection.execute(sql)
    names = [column[0] for column in result.description]
    return [dict(zip(names, map(value, row))) for row in result.fetchall()]


def value(found):
    """A value as `afterwrite query --json` writes it."""
    match found:
        case float() if not math.isfinite(found):
            return None
        case decimal.Decimal():
            return float(found) if found.as_tuple().exponent < 0 else int(found)
        case datetime.datetime():
            has_fraction = found.microsecond != 0
            return found.replace(tzinfo=None).isoformat(timespec="milliseconds" if has_fraction else "seconds") + "Z"
        case datetime.date():
            return found.isoformat()
        case bytes():
            return found.hex()
        case list():
            return [value(element) for element in found]
        case dict():
            return {name: value(member) for name, member in found.items()}
        case _:
            return found


if __name__ == "__main__":
    main()
