"""Starts moto with the requests that it lacks and the AWS provider of Terraform sends.

    python moto_server.py PORT

Without Athena's DeleteNamedQuery and the query definitions of CloudWatch Logs the provider repeats its requests for minutes; without replicas
of tables it waits for them.
"""

import copy
import json
import logging
import sys
import uuid

from moto.athena.models import athena_backends
from moto.athena.responses import AthenaResponse
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler
from moto.logs.responses import LogsResponse
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

describe_without_replicas = Table.describe
update_without_replicas = DynamoHandler.update_table


def delete_named_query(self):
    backend = athena_backends[self.current_account][self.region]
    backend.named_queries.pop(self._get_param("NamedQueryId"), None)
    return "{}"


def query_definitions(self):
    """The saved queries of an account and a region, by their ids."""
    return self.logs_backend.__dict__.setdefault("query_definitions", {})


def put_query_definition(self):
    identifier = self._get_param("queryDefinitionId") or str(uuid.uuid4())
    names = ["name", "queryString", "logGroupNames"]
    query_definitions(self)[identifier] = {name: self._get_param(name) for name in names} | {"queryDefinitionId": identifier}
    return json.dumps({"queryDefinitionId": identifier})


def describe_query_definitions(self):
    prefix = self._get_param("queryDefinitionNamePrefix") or ""
    found = [query for query in query_definitions(self).values() if query["name"].startswith(prefix)]
    return json.dumps({"queryDefinitions": found})


def delete_query_definition(self):
    deleted = query_definitions(self).pop(self._get_param("queryDefinitionId"), None)
    return json.dumps({"success": deleted is not None})


def update_table(self):
    """Creates and deletes replicas: tables of the same name in other regions. A request changes replicas or something else."""
    updates = self.body.get("ReplicaUpdates", [])
    if not updates:
        return update_without_replicas(self)
    name, account = self.body["TableName"], dynamodb_backends[self.current_account]
    table = self.dynamodb_backend.get_table(name)
    replicas = table.__dict__.setdefault("replica_regions", [])
    for update in updates:
        kind, region = next((kind, change["RegionName"]) for kind, change in update.items())
        if kind == "Create":
            replica = copy.copy(table)
            replica.table_arn = table.table_arn.replace(f":{self.region}:", f":{region}:")
            account[region].tables[name] = replica
            replicas.append(region)
        elif kind == "Delete":
            account[region].tables.pop(name, None)
            replicas.remove(region)
    return update_without_replicas(self)


def describe(self, *arguments, **named):
    description = describe_without_replicas(self, *arguments, **named)
    replicas = [{"RegionName": region, "ReplicaStatus": "ACTIVE"} for region in getattr(self, "replica_regions", [])]
    for content in [description] + [description[key] for key in ("Table", "TableDescription") if key in description]:
        if replicas and "TableName" in content:
            content["Replicas"] = replicas
    return description


def main():
    AthenaResponse.delete_named_query = delete_named_query
    for operation in (put_query_definition, describe_query_definitions, delete_query_definition):
        setattr(LogsResponse, operation.__name__, operation)
    DynamoHandler.update_table = update_table
    Table.describe = describe
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", int(sys.argv[1]), application, threaded=True)
    print("ready", flush=True)
    server.serve_forever()


main()
