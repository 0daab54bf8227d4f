#!/usr/bin/env python3
"""Queries the datasets in DuckDB, with the SQL that is checked in for Athena and nothing else of Afterwrite.

    independent_reader.py BUCKET SQL [--views] [--only NAME …]

BUCKET is a folder like the bucket (it has datasets/<name>/_delta_log/… and the files), SQL one of the folders of
infra/athena. The files of a table are those of its newest version, see delta_log.py. Every table, view and query in it is parsed as Athena's; views and queries are translated by sqlglot. Prints one
JSON object: `statements`, the files that were parsed; `queries`, the rows of every saved query by its name, in their order; with
--views also `views`, the rows of every view and of every table of current rows, in the order of their JSON text. Values are written as by `afterwrite query --json`,
except that a decimal with digits after its point is written as the nearest double: 4.0 instead of 4.00.

Fails if a file has a column whose type Athena reads differently (unsigned, INT96, nanoseconds), or that is not in the table's
schema, or if the size or the number of rows of a file differs from the log.

Needs duckdb and sqlglot (PyPI).
"""

import argparse
import datetime
import decimal
import functools
import json
import math
import pathlib
import sys

import duckdb
import sqlglot
from sqlglot import exp

import delta_log


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
        create_table(connection, file, options.bucket)
    names = [create_view(connection, file) for file in views]
    names += [file.stem for file in tables if not file.stem.endswith("_log")]
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


@functools.cache
def translated(file):
    """The statement of a file, parsed as Athena's."""
    statements = sqlglot.parse(file.read_text(), read="athena")
    if len(statements) != 1 or isinstance(statements[0], exp.Command):
        sys.exit(f"{file}: not one statement that sqlglot knows")
    return statements[0]


def create_table(connection, file, bucket):
    """Creates the table at the statement's location: the files of its newest version, with the columns of its schema."""
    table = translated(file)
    name = table.this.name
    location = table.find(exp.LocationProperty).this.name
    properties = {it.this.name: it.args["value"].name for it in table.find_all(exp.Property) if it.args.get("value")}
    folder = bucket / location.removeprefix("s3://${bucket}/").rstrip("/")
    if properties != {"table_type": "DELTA"} or folder.name != name or table.find(exp.ColumnDef):
        sys.exit(f"{file}: not the expected table: {name}, {location}, {properties}")
    create_files(connection, name, folder, delta_log.snapshot(folder))


def create_files(connection, name, folder, snapshot):
    columns = {field["name"]: duckdb_type(field["type"]) for field in snapshot.schema["fields"]}
    source = nothing(columns)
    files = sorted(snapshot.files)
    if files:
        paths = [str(folder / path) for path in files]
        refuse_unfit_columns(connection, paths)
        refuse_wrong_statistics(connection, folder, snapshot)
        read = "read_parquet(?, hive_partitioning = true, hive_types = {'dt': VARCHAR}, union_by_name = true)".replace(
            "?", str(paths)
        )
        found = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()]
        unknown = [column for column in found if column not in columns]
        if unknown:
            sys.exit(f"{folder}: columns that the table does not have: {', '.join(unknown)}")
        cast = ", ".join(f'cast("{column}" AS {columns[column]}) AS "{column}"' for column in found)
        source += f" UNION ALL BY NAME SELECT {cast} FROM {read}"
    connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS {source}')


def nothing(columns):
    typed = ", ".join(f'cast(NULL AS {kind}) AS "{column}"' for column, kind in columns.items())
    return f"SELECT {typed} WHERE false"


def duckdb_type(kind):
    """A type of the protocol's schema in DuckDB's words."""
    match kind:
        case {"type": "array", "elementType": element}:
            return f"{duckdb_type(element)}[]"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP({duckdb_type(key)}, {duckdb_type(value)})"
        case {"type": "struct", "fields": fields}:
            members = ", ".join(f'"{field["name"]}" {duckdb_type(field["type"])}' for field in fields)
            return f"STRUCT({members})"
        case str() if kind.startswith("decimal"):
            return kind
    return {
        "string": "VARCHAR", "long": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN", "binary": "BLOB",
        "date": "DATE", "timestamp": "TIMESTAMP",
    }[kind]


def refuse_unfit_columns(connection, paths):
    schema = connection.execute(
        "SELECT DISTINCT name, type, coalesce(converted_type, ''), coalesce(cast(logical_type AS VARCHAR), '')"
        " FROM parquet_schema(?)",
        [paths],
    ).fetchall()
    unfit = [
        f"{name} ({kind} {converted} {logical})"
        for name, kind, converted, logical in schema
        if kind == "INT96" or converted.startswith("UINT") or "NANOS=NANO" in logical.upper()
    ]
    if unfit:
        sys.exit(f"Athena reads the types of these columns differently: {', '.join(unfit)}")


def refuse_wrong_statistics(connection, folder, snapshot):
    """Compares the size, the number of rows and the bounds of positions of every file with the log."""
    paths = [str(folder / path) for path in snapshot.files]
    found = connection.execute(
        'SELECT filename, count(*), min("_position"), max("_position"), min("_changed_at"), count(*) - count("_changed_at")'
        " FROM read_parquet(?, filename = true, union_by_name = true) GROUP BY filename",
        [paths],
    ).fetchall()
    found = {name: statistics for name, *statistics in found}
    for path, add in snapshot.files.items():
        statistics, file = json.loads(add["stats"]), folder / path
        # A file without rows is not found.
        rows, least, greatest, changed, unknown = found.get(str(file), (0, None, None, None, 0))
        low, high = statistics["minValues"], statistics["maxValues"]
        changed = value(changed)
        is_right = (
            add["size"] == file.stat().st_size
            and rows == statistics["numRecords"]
            and low["_position"] <= least
            and greatest <= high["_position"]
            and unknown == statistics["nullCount"]["_changed_at"]
            and (changed is None or low["_changed_at"].replace(".000Z", "Z") == changed)
        )
        if not is_right:
            sys.exit(f"{path}: {found.get(str(file))} and {add['size']} bytes are not what the log says: {statistics}")


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
