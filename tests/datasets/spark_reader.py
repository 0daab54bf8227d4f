"""Compares every value of every column that Spark and PyArrow read in the same files.

Not part of the suite, because it needs Java and about 400 MB of packages:

    pip install pyspark==4.3.0 pyarrow
    cargo run --release -- demo --datasets /tmp/afterwrite-demo
    python tests/datasets/spark_reader.py /tmp/afterwrite-demo

Prints Spark's schema of each dataset and the number of values compared; exits with code 1 at the first difference.
"""

import datetime
import pathlib
import sys

import pyarrow.dataset
from pyspark.sql import SparkSession


def plain(value):
    """A value in a form that both have."""
    if hasattr(value, "asDict"):
        return {name: plain(member) for name, member in value.asDict().items()}
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, list):
        # PyArrow shows a map as a list of pairs.
        if value and all(isinstance(element, tuple) for element in value):
            return {key: plain(member) for key, member in value}
        return [plain(element) for element in value]
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return zoned.astimezone(datetime.timezone.utc)
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def rows(names, read):
    """Rows as sorted texts."""
    return sorted(repr([(name, plain(row[name])) for name in names]) for row in read)


def compare(spark, folder):
    """Compares the values of a dataset; returns how many are equal."""
    frame = spark.read.parquet(str(folder))
    print(f"{folder.name}:")
    frame.printSchema()
    files = pyarrow.dataset.dataset(str(folder), format="parquet", partitioning=None)
    names = files.schema.names
    missing = set(names) - set(frame.columns)
    if missing:
        sys.exit(f"{folder.name}: Spark sees no column {sorted(missing)}")
    by_spark = rows(names, (row.asDict() for row in frame.select(names).collect()))
    by_arrow = rows(names, files.to_table().to_pylist())
    for one, other in zip(by_spark, by_arrow):
        if one != other:
            sys.exit(f"{folder.name}: Spark reads\n  {one}\nand PyArrow\n  {other}")
    if len(by_spark) != len(by_arrow):
        sys.exit(f"{folder.name}: Spark reads {len(by_spark)} rows, PyArrow {len(by_arrow)}")
    return len(by_spark) * len(names)


def main():
    root = pathlib.Path(sys.argv[1]) / "datasets"
    session = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC")
    spark = session.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
    print("Spark", spark.version, "PyArrow", pyarrow.__version__)
    folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
    counts = {folder.name: compare(spark, folder) for folder in folders}
    for name, count in counts.items():
        print(f"{name}: {count} values are equal")
    spark.stop()


main()
