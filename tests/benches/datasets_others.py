"""The work of the exporter and the compactor, done by DuckDB and PyArrow; the sizes of the resulting files; and the cost of the saved
queries: datasets_others.py duckdb|pyarrow|duckdb-sorts|sizes|queries FOLDER. Prints measurements as JSON."""

import glob
import json
import os
import pathlib
import re
import resource
import sys
import time

TEXTS = ["attempt_id", "candidate_id", "project_id", "status", "started_at", "completed_at"]
NUMBERS = ["score", "total_questions", "time_taken_seconds"]
KEYS = ["candidate_id", "attempt_id"]
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
        + [f"i.{name}.S AS _key_{name}" for name in KEYS]
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
        columns |= {f"_key_{name}": columns[name] for name in KEYS}
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
    """Writes each exported partition twice, as the compactor does, sorted as in the model: all changes, each once; and the newest of each item."""
    import duckdb

    con = duckdb.connect(config={"threads": 1})
    con.execute("SET TimeZone = 'UTC'")
    rows = 0
    for partition in sorted(glob.glob(f"{folder}/datasets/attempts_log/dt=*")):
        changes = f"SELECT DISTINCT * FROM read_parquet('{partition}/*.parquet', hive_partitioning = false)"
        newest = "row_number() OVER (PARTITION BY _key_candidate_id, _key_attempt_id ORDER BY _position DESC) = 1"
        for name, source in [("log", changes), ("current", f"SELECT * FROM ({changes}) QUALIFY {newest}")]:
            file = f"{out}/{os.path.basename(partition)}/{name}.parquet"
            os.makedirs(os.path.dirname(file), exist_ok=True)
            order = "ORDER BY project_id, started_at, candidate_id, attempt_id, _position"
            written = con.execute(
                f"COPY ({source} {order}) TO '{file}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
            ).fetchone()[0]
        rows += written
    return rows


def sizes(folder):
    """The size of the files of current rows, and of the same rows, unsorted with SNAPPY: in total and by column."""
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
    lines = [f"{'On disk, MB':28} {'current':>10} {'SNAPPY':>8}  ratio"]

    def line(name, one, other):
        lines.append(f"{name:28} {one / 1e6:>10.1f} {other / 1e6:>8.1f}  {one / other if other else 1:.2f}")

    line("all columns", sum(compacted.values()), sum(unsorted.values()))
    for name in sorted(compacted, key=compacted.get, reverse=True):
        line("  " + name, compacted[name], unsorted.get(name, 0))
    return "\n".join(lines)


COUNTS = {"count(*)": "SELECT count(*) FROM attempts", "count(*) of a day": "SELECT count(*) FROM attempts WHERE dt = '2026-02-06'"}


def queries(folder):
    """The bytes that the saved queries read, and their seconds: on the table of current rows; on the view over the log, which the queries
    used before there was such a table; and on a table made by hand of the same rows, with the columns of the model alone."""
    import duckdb

    tests = pathlib.Path(__file__).parent.parent
    sys.path.append(str(tests / "datasets"))
    import delta_log
    import independent_reader as reader

    sql = tests.parent / "infra" / "athena" / "exambuddy"
    bucket = pathlib.Path(folder)

    def parquet(files):
        return f"SELECT * FROM read_parquet({files}, hive_partitioning = true, hive_types = {{'dt': VARCHAR}})"

    def table(name):
        folder = bucket / "datasets" / name
        return parquet([str(folder / path) for path in delta_log.snapshot(folder).files])

    def connection(attempts):
        con = duckdb.connect(config={"threads": 1})
        con.execute("SET TimeZone = 'UTC'")
        for file in reader.sql_files(sql, "tables"):
            if not file.stem.startswith("attempts"):
                reader.create_table(con, file, bucket)
        con.execute(f"CREATE VIEW attempts_log AS {table('attempts_log')}")
        reader.create_view(con, sql / "views" / "attempts_now.sql")
        con.execute(f"CREATE VIEW attempts AS {attempts}")
        return con

    current, view = connection(table("attempts")), connection("SELECT * FROM attempts_now")
    by_hand = f"{folder}/by_hand"
    current.execute(f"""COPY (SELECT * EXCLUDE (_position, _operation, _changed_at, _rescued, _generation, _key_candidate_id, _key_attempt_id)
                        FROM attempts) TO '{by_hand}' (FORMAT parquet, PARTITION_BY (dt), COMPRESSION zstd)""")
    made = connection(parquet(glob.glob(f"{by_hand}/*/*.parquet")))
    # Neither the view nor the table by hand has the position, by which one query orders rows of the same attempt.
    position = re.compile(r', \w+\."_position"( NULLS \w+)?')
    found = {file.stem: position.sub("", in_february(reader.translated(file))) for file in reader.sql_files(sql, "queries")}
    about_attempts = {name: text for name, text in found.items() if "attempts" in text.lower().replace('"', "").split()}
    lines = [f"{'Reading, MB (seconds)':26} {'current':>14} {'view on log':>14} {'by hand':>14}  to view  to hand"]
    for name, text in (COUNTS | about_attempts).items():
        figures = [cost(con, text) for con in (current, view, made)]
        cells = " ".join(f"{size / 1e6:>7.1f} ({seconds:.2f})" for size, seconds, _ in figures)
        (ours, _, rows), (of_view, _, same), (hand, _, too) = figures
        if not rows == same == too:
            sys.exit(f"{name}: the rows differ")
        lines.append(f"{name:26} {cells}  {ours / of_view:>7.2f}  {ours / hand:>7.2f}")
    return "\n".join(lines)


def in_february(query):
    """The text of a query; one about the current month is about the month of the generated attempts instead."""
    return query.sql("duckdb").replace("CAST(CURRENT_DATE AS TEXT)", "'2026-02-01'")


def cost(connection, text):
    """The bytes that a query reads, its seconds (the fastest of three), and its rows."""
    seconds = []
    for _ in range(3):
        before, start = bytes_read(), time.perf_counter()
        rows = connection.execute(text).fetchall()
        seconds.append(time.perf_counter() - start)
        size = bytes_read() - before
    return size, min(seconds), rows


def bytes_read():
    """The bytes that this process has read by system calls, from the disk or from memory."""
    with open("/proc/self/io") as counters:
        return next(int(line.split()[1]) for line in counters if line.startswith("rchar:"))


def peak_kb():
    """The largest resident memory of this process. `ru_maxrss` would include that of the program that started it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def main():
    name, folder = sys.argv[1], sys.argv[2]
    if name in ("sizes", "queries"):
        print(json.dumps({"report": {"sizes": sizes, "queries": queries}[name](folder)}))
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
