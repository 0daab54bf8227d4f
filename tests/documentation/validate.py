"""Validates models with a JSON Schema: {"schema": …, "models": […]} in, a list of null or the first problems out."""

import gc
import itertools
import json
import sys

import jsonschema_rs

# Thousands of models are read: collections of garbage would take two thirds of the time, and find none.
gc.disable()

request = json.load(sys.stdin)
jsonschema_rs.meta.validate(request["schema"])
validator = jsonschema_rs.Draft202012Validator(request["schema"])


def described(problem):
    return f"/{'/'.join(map(str, problem.instance_path))}: {problem.message}"[:300]


problems = []
for model in request["models"]:
    first = itertools.islice(validator.iter_errors(model), 3)
    problems.append("; ".join(map(described, first)) or None)
json.dump(problems, sys.stdout)
