"""Evaluates a template of AWS SAM as CloudFormation does: parameters, conditions and functions, for one region and account."""

import json
import os
import re
import subprocess
from pathlib import Path

import yaml

PSEUDO_PARAMETERS = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "eu-west-1",
    "AWS::URLSuffix": "amazonaws.com",
}
# The values of `Ref` and `Arn` of a resource. Names in braces are properties; mappings and roles are named by their logical ids.
NAMES = {
    "AWS::Athena::WorkGroup": "{Name}",
    "AWS::CloudWatch::Dashboard": "{DashboardName}",
    "AWS::DynamoDB::Table": "{TableName}",
    "AWS::Glue::Database": "{DatabaseInput[Name]}",
    "AWS::KinesisFirehose::DeliveryStream": "{DeliveryStreamName}",
    "AWS::Lambda::EventSourceMapping": "mapping of {FunctionName} from {EventSourceArn}",
    "AWS::Logs::LogGroup": "{LogGroupName}",
    "AWS::Logs::LogStream": "{LogStreamName}",
    "AWS::S3::Bucket": "{BucketName}",
    "AWS::SQS::Queue": "queue {QueueName}",
}
PLACE = "eu-west-1:123456789012"
ARNS = {
    "AWS::CloudWatch::Alarm": f"arn:aws:cloudwatch:{PLACE}:alarm:{{AlarmName}}",
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{PLACE}:table/{{TableName}}",
    "AWS::IAM::Role": "role {Policies[0][PolicyName]}",
    "AWS::KinesisFirehose::DeliveryStream": f"arn:aws:firehose:{PLACE}:deliverystream/{{DeliveryStreamName}}",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{PLACE}:log-group:{{LogGroupName}}:*",
    "AWS::S3::Bucket": "arn:aws:s3:::{BucketName}",
    "AWS::SQS::Queue": f"arn:aws:sqs:{PLACE}:{{QueueName}}",
}
ABSENT = object()
# The reader in C, where the package has it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def write_template(model, *options):
    """The template of a built-in model, as the command line writes it."""
    binaries = os.environ.get("AFTERWRITE_TEST_BIN_DIR")
    assert binaries, "AFTERWRITE_TEST_BIN_DIR is not set: run tests/run"
    command = [Path(binaries) / "afterwrite", "template", "sam", model, *options]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


class SamTemplate:
    def __init__(self, text, parameters):
        self.source = yaml.load(text, LOADER)
        declared = {name: parameter.get("Default") for name, parameter in self.source["Parameters"].items()}
        unknown = parameters.keys() - declared.keys()
        assert not unknown, f"the template has no parameters {sorted(unknown)}"
        self.parameters = {**PSEUDO_PARAMETERS, **declared, **parameters}
        missing = [name for name, value in self.parameters.items() if value is None]
        assert not missing, f"parameters without a value: {missing}"

    def resources(self):
        """The resources whose conditions hold: pairs of a kind and its properties."""
        existing = [resource for resource in self.source["Resources"].values() if self.exists(resource)]
        return [(resource["Type"], self.value(resource["Properties"])) for resource in existing]

    def exists(self, resource):
        return "Condition" not in resource or self.holds({"Condition": resource["Condition"]})

    def holds(self, condition):
        match condition:
            case {"Condition": name}:
                return self.holds(self.source["Conditions"][name])
            case {"Fn::Not": [inner]}:
                return not self.holds(inner)
            case {"Fn::And": inner}:
                return all(map(self.holds, inner))
            case {"Fn::Or": inner}:
                return any(map(self.holds, inner))
            case {"Fn::Equals": [left, right]}:
                return self.value(left) == self.value(right)
        raise AssertionError(f"unknown condition: {condition}")

    def value(self, node):
        match node:
            case {"Ref": "AWS::NoValue"}:
                return ABSENT
            case {"Ref": name}:
                return self.reference(name)
            case {"Fn::GetAtt": [name, "Arn"]}:
                return self.described(name, ARNS)
            case {"Fn::Sub": text}:
                return re.sub(r"\$\{([^}]+)\}", lambda found: self.substituted(found[1]), text)
            case {"Fn::If": [name, value, otherwise]}:
                return self.value(value if self.holds({"Condition": name}) else otherwise)
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self.value(parts))
            case {"Fn::Split": [separator, text]}:
                return self.value(text).split(separator)
            case {"Fn::Select": [index, parts]}:
                return self.value(parts)[index]
            case dict():
                values = {name: self.value(member) for name, member in node.items()}
                return {name: value for name, value in values.items() if value is not ABSENT}
            case list():
                return [value for value in map(self.value, node) if value is not ABSENT]
        return node

    def substituted(self, name):
        resource, _, attribute = name.partition(".")
        return self.described(resource, ARNS) if attribute == "Arn" else str(self.reference(name))

    def reference(self, name):
        if name in self.parameters:
            value = self.parameters[name]
            is_list = self.source["Parameters"].get(name, {}).get("Type") == "CommaDelimitedList"
            return value.split(",") if is_list else value
        resource, _, alias = name.partition(".")
        if alias == "Alias":
            function = self.value(self.source["Resources"][resource]["Properties"]["FunctionName"])
            return f"arn:aws:lambda:{PLACE}:function:{function}:live"
        return self.described(name, NAMES)

    def described(self, name, forms):
        resource = self.source["Resources"][name]
        assert self.exists(resource), f"{name} is used, but its condition does not hold"
        return forms[resource["Type"]].format(**self.value(resource["Properties"]))


def covering(templates):
    """Few templates that have every property of every kind of resource that any of the templates has."""
    properties = {file: properties_of(yaml.load(file.read_text(), LOADER)) for file in templates}
    chosen, missing = [], set().union(*properties.values())
    while missing:
        best = max(templates, key=lambda file: len(properties[file] & missing))
        missing -= properties[best]
        chosen.append(best)
    return chosen


def properties_of(template):
    """The paths of the properties of all resources, by their kinds, and of all parameters, conditions and outputs."""
    sections = {name: section for name, section in template.items() if isinstance(section, dict)}
    return {
        (name, member.get("Type"), *path)
        for name, section in sections.items()
        for member in section.values()
        if isinstance(member, dict)
        for path in paths_of(member)
    }


def paths_of(node):
    if isinstance(node, list):
        for member in node:
            yield from paths_of(member)
    elif isinstance(node, dict):
        for name, member in node.items():
            yield (name,)
            yield from ((name, *path) for path in paths_of(member))


# The longest policies of IAM, in characters without spaces: those of a role, and one that is managed.
MAXIMUM_SIZES = {"AWS::IAM::Role": 10_240, "AWS::IAM::ManagedPolicy": 6_144}


def check_policies(text):
    """Fails if a policy of the template is too long when every option is used, with long names."""
    declared = yaml.load(text, LOADER)["Parameters"]
    streams = [name for name in declared if name.endswith("StreamArn")]
    buses = [name for name in declared if name.startswith("EventsArn")]
    table = f"arn:aws:dynamodb:{PLACE}:table/{'t' * 40}"
    given = {
        "Name": "n" * 30,
        "CacheSecretArn": f"arn:aws:secretsmanager:{PLACE}:secret:{'s' * 60}",
        "DistributionId": "E" * 14,
        "VpcSubnetIds": "subnet-1",
        "VpcSecurityGroupIds": "sg-1",
        "KmsKeyArn": f"arn:aws:kms:{PLACE}:key/{'k' * 36}",
        **{name: f"{table}/stream/2026-02-06T00:00:00.000" for name in streams},
        **{name: f"arn:aws:events:{PLACE}:event-bus/{'b' * 60}" for name in buses},
    }
    largest = 0
    for kind, properties in SamTemplate(text, given).resources():
        documents = [properties.get("PolicyDocument"), *(policy["PolicyDocument"] for policy in properties.get("Policies", []))]
        for document in documents if kind in MAXIMUM_SIZES else []:
            size = len(json.dumps(document, separators=(",", ":")))
            assert document is None or size <= MAXIMUM_SIZES[kind], f"a policy has {size} characters: {document}"
            largest = max(largest, size)
    assert largest > 1000, largest
