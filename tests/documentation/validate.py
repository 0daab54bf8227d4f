"""Validates models with a JSON Schema: {"schema": …, "models": […]} in, a list of null or the first problem out."""

import json
import sys

from jsonschema import Draft202012Validator

request = json.load(sys.stdin)
Draft202012Validator.check_schema(request["schema"])
validator = Draft202012Validator(request["schema"])
problems = []
for model in request["models"]:
    problem = next(validator.iter_errors(model), None)
    problems.append(problem and f"/{'/'.join(map(str, problem.absolute_path))}: {problem.message}"[:300])
json.dump(problems, sys.stdout)
