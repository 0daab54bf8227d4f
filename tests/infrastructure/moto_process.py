"""A moto server of its own for each check, and its inventory."""

import socket
import subprocess
import sys
from pathlib import Path

import boto3
import moto

SERVER = Path(__file__).with_name("moto_server.py")
REGION, REPLICA_REGION = "eu-west-1", "eu-central-1"


class Moto:
    def __enter__(self):
        version = tuple(map(int, moto.__version__.split(".")[:3]))
        assert version >= (5, 2, 5), f"moto {moto.__version__} lacks requests of the provider: install moto[server]==5.2.5"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.process = subprocess.Popen([sys.executable, SERVER, str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout.readline() == "ready\n", "moto does not start: it needs moto[server] 5.2.5"
        self.endpoint = f"http://127.0.0.1:{port}"
        self.work_groups = set()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def client(self, service, region=REGION):
        return boto3.client(
            service, endpoint_url=self.endpoint, region_name=region, aws_access_key_id="test", aws_secret_access_key="test"
        )

    def inventory(self):
        """The names of everything that a deployment can leave."""
        lists = [
            ("dynamodb", "list_tables", "TableNames", None),
            ("s3", "list_buckets", "Buckets", "Name"),
            ("lambda", "list_functions", "Functions", "FunctionName"),
            ("lambda", "list_event_source_mappings", "EventSourceMappings", "UUID"),
            ("sqs", "list_queues", "QueueUrls", None),
            ("iam", "list_roles", "Roles", "RoleName"),
            ("logs", "describe_log_groups", "logGroups", "logGroupName"),
            ("logs", "describe_query_definitions", "queryDefinitions", "name"),
            ("firehose", "list_delivery_streams", "DeliveryStreamNames", None),
            ("scheduler", "list_schedules", "Schedules", "Name"),
            ("glue", "get_databases", "DatabaseList", "Name"),
            ("athena", "list_work_groups", "WorkGroups", "Name"),
            ("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
            ("cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName"),
        ]
        held = set()
        for service, operation, key, name in lists:
            listed = getattr(self.client(service), operation)().get(key, [])
            held |= {(operation, item[name] if name else item) for item in listed}
        policies = self.client("iam").list_policies(Scope="Local")["Policies"]
        held |= {("list_policies", policy["PolicyName"]) for policy in policies}
        held |= {("replicas", name) for name in self.client("dynamodb", REPLICA_REGION).list_tables()["TableNames"]}
        # A deleted work group is listed no longer; its queries could be left.
        self.work_groups |= {name for operation, name in held if operation == "list_work_groups"}
        for group in sorted(self.work_groups):
            queries = self.client("athena").list_named_queries(WorkGroup=group)["NamedQueryIds"]
            held |= {("list_named_queries", query) for query in queries}
        return held
