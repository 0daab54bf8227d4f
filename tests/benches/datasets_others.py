"""The work of the exporter and the compactor, done by DuckDB and PyArrow, and the sizes of the resulting files:
datasets_others.py duckdb|pyarrow|duckdb-sorts|sizes FOLDER. Prints measurements as JSON."""

import glob
import json
import os
import resource
import sys

TEXTS = ["attempt_id", "candidate_id", "project_id", "status", "started_at", "completed_at"]
NUMBERS = ["score", "total_questions", "time_taken_seconds"]
LABEL = "2026-01-01T00:00:00.000#"


def by_duckdb(objects, out):
    import duckdb

    image = "STRUCT(" + ", ".join(
        [f"{name} STRUCT(S VARCHAR)" for name in TEXTS] + [f"{name} STRUCT(N VARCHAR)" for name in NUMBERS]
    ) + ")"
    change = (
        "STRUCT(ApproximateCreationDateTime BIGINT, NewImage " + image + ", OldImage " + image + ", SequenceNumber VARCHAR)"
    )
    con = duckdb.connect(config={"threads": 1})
    con.execute("SET preserve_insertion_order = false")
    columns = ", ".join(
        [f"i.{name}.S AS {name}" for name in TEXTS if not name.endswith("_at")]
        + [f"CAST(i.{name}.S AS TIMESTAMP) AS {name}" for name in TEXTS if name.endswith("_at")]
        + [f"CAST(i.{name}.N AS BIGINT) AS {name}" for name in NUMBERS]
    )
    rows = 0
    for number, name in enumerate(objects):
        query = f"""
            SELECT {columns}, '{LABEL}' || lpad(d.SequenceNumber, 40, '0') AS _position, eventName AS _operation,
                   make_timestamp(d.ApproximateCreationDateTime * 1000000) AS _changed_at, CAST(NULL AS VARCHAR) AS _rescued,
                   CAST(1 AS BIGINT) AS _generation,
                   substr(i.started_at.S, 1, 10) AS dt
            FROM (SELECT eventName, dynamodb AS d, CASE WHEN eventName = 'REMOVE' THEN dynamodb.OldImage
                         ELSE dynamodb.NewImage END AS i
                  FROM read_json('{name}', format = 'newline_delimited', columns = {{eventName: 'VARCHAR', dynamodb: '{change}'}}))
        """
        rows += con.execute(
            f"COPY ({query}) TO '{out}/{number}' (FORMAT parquet, PARTITION_BY (dt), COMPRESSION zstd, COMPRESSION_LEVEL 1)"
        ).fetchone()[0]
    return rows


def by_pyarrow(objects, out):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.json as pj

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    text, number = pa.struct([("S", pa.string())]), pa.struct([("N", pa.string())])
    image = pa.struct([(name, text) for name in TEXTS] + [(name, number) for name in NUMBERS])
    change = pa.struct(
        [("ApproximateCreationDateTime", pa.int64()), ("NewImage", image), ("OldImage", image), ("SequenceNumber", pa.string())]
    )
    schema = pa.schema([("eventName", pa.string()), ("dynamodb", change)])
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    rows = 0
    for index, name in enumerate(objects):
        with pa.input_stream(name, compression="gzip") as stream:
            table = pj.read_json(stream, read_options=pj.ReadOptions(use_threads=False), parse_options=options)
        changes = table["dynamodb"]
        new, old = pc.struct_field(changes, "NewImage"), pc.struct_field(changes, "OldImage")
        gone = pc.equal(table["eventName"], "REMOVE")

        def value(name, kind):
            return pc.if_else(gone, pc.struct_field(old, [name, kind]), pc.struct_field(new, [name, kind]))

        columns = {}
        for column in TEXTS:
            columns[column] = value(column, "S")
            if column.endswith("_at"):
                columns[column] = pc.strptime(columns[column], "%Y-%m-%dT%H:%M:%SZ", "ms")
        for column in NUMBERS:
            columns[column] = pc.cast(value(column, "N"), pa.int64())
        padded = pc.utf8_lpad(pc.struct_field(changes, "SequenceNumber"), 40, "0")
        columns["_position"] = pc.binary_join_element_wise(LABEL, padded, "")
        columns["_operation"] = table["eventName"]
        created = pc.struct_field(changes, "ApproximateCreationDateTime")
        columns["_changed_at"] = pc.cast(pc.multiply(created, 1000), pa.timestamp("ms"))
        columns["_rescued"] = pa.nulls(table.num_rows, pa.string())
        columns["_generation"] = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
        columns["dt"] = pc.utf8_slice_codeunits(value("started_at", "S"), 0, 10)
        ds.write_dataset(
            pa.table(columns),
            f"{out}/{index}",
            format="parquet",
            partitioning=ds.partitioning(pa.schema([("dt", pa.string())]), flavor="hive"),
            file_options=ds.ParquetFileFormat().make_write_options(compression="zstd", compression_level=1),
            use_threads=False,
        )
        rows += table.num_rows
    return rows


def sorted_by_duckdb(folder, out):
    """Writes each exported partition as one file without duplicate rows, sorted as in the model."""
    import duckdb

    con = duckdb.connect(config={"threads": 1})
    con.execute("SET TimeZone = 'UTC'")
    rows = 0
    for partition in sorted(glob.glob(f"{folder}/datasets/attempts/dt=*")):
        name = os.path.basename(partition)
        query = f"""SELECT DISTINCT * FROM read_parquet('{partition}/*.parquet', hive_partitioning = false)
                    ORDER BY project_id, started_at, candidate_id, attempt_id, _position"""
        os.makedirs(f"{out}/{name}")
        rows += con.execute(
            f"COPY ({query}) TO '{out}/{name}/sorted.parquet' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
        ).fetchone()[0]
    return rows


QUERIES = "../../infra/athena/exambuddy/queries"


def sizes(folder):
    """The size of the compacted files and of the same rows, unsorted with SNAPPY: in total, by column, and for the columns of each saved query."""
    import re

    import duckdb

    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    ours = f"{folder}/datasets/attempts/*/*.parquet"
    os.makedirs(f"{folder}/snappy")
    for partition in sorted(glob.glob(f"{folder}/datasets/attempts/dt=*")):
        # In the order of delivery, which is that of the positions.
        con.execute(f"""COPY (SELECT * FROM read_parquet('{partition}/*.parquet', hive_partitioning = false) ORDER BY _position)
                        TO '{folder}/snappy/{os.path.basename(partition)}.parquet' (FORMAT parquet, COMPRESSION snappy)""")

    def columns(files):
        return dict(con.execute(
            f"SELECT path_in_schema, sum(total_compressed_size) FROM parquet_metadata('{files}') GROUP BY 1"
        ).fetchall())

    compacted, unsorted = columns(ours), columns(f"{folder}/snappy/*.parquet")
    lines = [f"{'On disk, MB':28} {'compacted':>10} {'SNAPPY':>8}  ratio"]

    def line(name, one, other):
        lines.append(f"{name:28} {one / 1e6:>10.1f} {other / 1e6:>8.1f}  {one / other if other else 1:.2f}")

    line("all columns", sum(compacted.values()), sum(unsorted.values()))
    for name in sorted(compacted, key=compacted.get, reverse=True):
        line("  " + name, compacted[name], unsorted.get(name, 0))
    lines += ["", "Read by saved queries"]
    # The columns by which the view selects the newest row of an item.
    of_view = {"candidate_id", "attempt_id", "_position", "_operation", "_changed_at", "_rescued", "_generation"}
    for file in sorted(glob.glob(os.path.join(os.path.dirname(__file__), QUERIES, "*.sql"))):
        words = set(re.findall(r"[a-z_]+", open(file).read().lower()))
        if "attempts" in words:
            read = [name for name in compacted if name in words or name in of_view]
            name = os.path.splitext(os.path.basename(file))[0]
            line("  " + name, sum(compacted[name] for name in read), sum(unsorted.get(name, 0) for name in read))
    return "\n".join(lines)


def peak_kb():
    """The largest resident memory of this process. `ru_maxrss` would include that of the program that started it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def main():
    name, folder = sys.argv[1], sys.argv[2]
    if name == "sizes":
        print(json.dumps({"report": sizes(folder)}))
        return
    out = os.path.join(folder, name)
    os.makedirs(out)
    if name == "duckdb-sorts":
        rows = sorted_by_duckdb(folder, out)
    else:
        rows = {"duckdb": by_duckdb, "pyarrow": by_pyarrow}[name](sorted(glob.glob(f"{folder}/archive/*.gz")), out)
    used = resource.getrusage(resource.RUSAGE_SELF)
    files = glob.glob(f"{out}/**/*.parquet", recursive=True)
    print(json.dumps({
        "rows": rows,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_kb": peak_kb(),
        "file_bytes": sum(os.path.getsize(file) for file in files),
    }))


main()
