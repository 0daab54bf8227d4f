"""Answers requests with a client in Python.

Usage: read.py CLIENT TABLE ENDPOINT REQUESTS
"""

import importlib.util
import json
import re
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import boto3

path, table, endpoint, requests = sys.argv[1:]
spec = importlib.util.spec_from_file_location("rollups", path)
library = importlib.util.module_from_spec(spec)
sys.modules["rollups"] = library
spec.loader.exec_module(library)
client = boto3.client(
    "dynamodb",
    endpoint_url=endpoint,
    region_name="eu-west-1",
    aws_access_key_id="test",
    aws_secret_access_key="test",
)
rollups = library.Rollups(table, client)


def plain(value):
    if isinstance(value, library.Rollup):
        return {"key": value.key, "exists": value.exists, "measures": plain(value.measures)}
    if isinstance(value, library.MeasuredValues):
        return plain(value.measures)
    if isinstance(value, library.RollupPage):
        return {"rollups": plain(value.rollups), "cursor": value.cursor}
    if hasattr(value, "__dataclass_fields__"):
        return plain(vars(value))
    if isinstance(value, Decimal):
        text = format(value, "f")
        return re.sub(r"\.?0+$", "", text) if "." in text else text
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, dict):
        return {name: plain(value) for name, value in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def numbers(reader, key):
    values = {name: value for name, value in reader.get(key).numbers.items() if value is not None}
    values = {name: int(value) if value == int(value) else value for name, value in values.items() if isinstance(value, (int, float))} | {
        name: value for name, value in values.items() if not isinstance(value, (int, float))
    }
    return json.dumps({name: values[name] for name in reader.get(key).numbers if name in values}, separators=(",", ":"))


def function_named(camel_case):
    names = (name for name in dir(library) if name == name.lower() and name.replace("_", "") == camel_case.lower())
    return getattr(library, next(names))


CALLS = {
    "get": lambda reader, key, **options: reader.get(key, **options),
    "numbers": numbers,
    "get_many": lambda reader, keys, **options: reader.get_many(keys, **options),
    "list": lambda reader, prefix, **options: reader.list(prefix, **options),
    "all": lambda reader, prefix, **options: list(reader.all(prefix, **options)),
    "total": lambda reader, prefix: reader.total(reader.all(prefix)),
    "percentile": lambda reader, prefix, of, percent: reader.total(reader.all(prefix)).percentile(of, percent),
    "average": lambda reader, key, total, count: reader.get(key).average(total, count),
    "range": lambda reader, series, first, last, **options: reader.range(series, first, last, **options),
    "moments": lambda reader, series, first, last: reader.range(series, moment(first), moment(last)),
    "bucket": lambda reader, time, zone=None: reader.bucket(moment(time), zone),
    "top": lambda reader, group, count: reader.top(group, count),
    "around": lambda reader, key, count: reader.around(key, count),
    "rank_of": lambda reader, key: reader.rank_of(key),
    "mirrors": lambda _, name, item: function_named(name)(item),
}


def answer(request):
    try:
        reader = getattr(rollups, request["reader"], None)
        return plain(CALLS[request["call"]](reader, *request["args"], **request.get("options", {})))
    except ValueError as error:
        return {"error": f"{type(error).__name__}: {error}"}


print(json.dumps([answer(request) for request in json.loads(Path(requests).read_text(encoding="utf-8"))]))
