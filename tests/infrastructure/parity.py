"""Compares what the SAM template deploys with what the Terraform module has deployed: the same resources with the same settings."""

import json
import re
from fnmatch import fnmatchcase

from limits import reached
from parity_settings import SAME
from sam_template import SamTemplate, write_template

# The template's parameters, by the names that the examples' variables have.
PARAMETERS = {
    "cache_url_secret_arn": "CacheSecretArn",
    "cloudfront_distribution_id": "DistributionId",
    "vpc_subnet_ids": "VpcSubnetIds",
    "vpc_security_group_ids": "VpcSecurityGroupIds",
    "redrive_role_arn": "RedrivePrincipalArn",
    "kms_key_arn": "KmsKeyArn",
}
# The defaults of a queue. Terraform's state names them.
QUEUE_DEFAULTS = {"VisibilityTimeout": 30, "KmsDataKeyReusePeriodSeconds": 300}
# Kinds whose settings are policies, the dashboard, or part of another resource of the template.
OTHERS = {
    "aws_cloudwatch_dashboard",
    "aws_iam_policy",
    "aws_iam_role",
    "aws_iam_role_policy",
    "aws_lambda_alias",
    "aws_s3_bucket_policy",
    "aws_sqs_queue_policy",
    "terraform_data",
}


def compare(deployment, outputs, planned, state):
    """Fails with all differences between the applied module and the template for the same model and parameters."""
    template = template_of(deployment, outputs)
    module = of_module(deployment, planned, state)
    assert len(template) > 80, f"the template has {len(template)} resources"
    unknown = {kind for kind, _ in module} - {same.module for same in SAME} - OTHERS
    assert not unknown, f"kinds that are not compared with the SAM template: {sorted(unknown)}"
    problems = [problem for same in SAME for problem in differences(same, module, template)]
    problems += policy_differences(module, template)
    problems += dashboard_differences(module, template)
    assert not problems, "the SAM template and the module differ:\n" + "\n".join(problems)
    print(f"{deployment.example}: {len(template)} resources of the SAM template are like the module's")


def template_of(deployment, outputs):
    """The template's resources: pairs of a kind and its properties."""
    options = [] if deployment.example == "new-table" else ["--single-reader"]
    given = {PARAMETERS[name]: value for name, value in deployment.given.items() if name in PARAMETERS}
    given = {name: ",".join(value) if isinstance(value, list) else value for name, value in given.items()}
    if "CacheSecretArn" in given:
        given["CacheCluster"] = "true"
    name = deployment.names[deployment.example]
    stream = outputs["stream_arns"]["ExamBuddyTable"]
    text = write_template("exambuddy", *options)
    resources = SamTemplate(text, {"Name": name, "ExamBuddyTableStreamArn": stream, **deployment.source_table_key(), **given}).resources()
    for kind, properties in resources:
        if kind == "AWS::Lambda::EventSourceMapping":
            properties["name"] = f"{properties['FunctionName']} from {properties['EventSourceArn']}"
        if kind == "AWS::Serverless::Function":
            # Terraform publishes a version by itself.
            del properties["Environment"]["Variables"]["REVISION"]
        if kind == "AWS::SQS::Queue":
            properties.update({**QUEUE_DEFAULTS, **properties})
    return resources


def of_module(deployment, planned, state):
    """The module's resources, with the names that the template's resources have."""
    name = deployment.names[deployment.example]
    for kind, values in state:
        if kind == "aws_lambda_event_source_mapping":
            function = values["function_arn"].rsplit(":", 1)[0] + ":live"
            values["name"] = f"{function} from {values['event_source_arn']}"
            if "stream_filters" in deployment.given and "/stream/" in values["event_source_arn"]:
                # The template has no parameter for other filters than the model's.
                values.update(filter_criteria=[], kms_key_arn="")
    text = json.dumps(state)
    for kind, values in state:
        if kind == "aws_lambda_event_source_mapping":
            text = text.replace(values["uuid"], f"mapping of {values['name']}")
    text = re.sub(r"http://[^/\"]+/\d{12}/", "queue ", text)
    text = text.replace(f"arn:aws:iam::123456789012:role/{name}-", "role ")
    # moto does not store how functions log.
    logging = {values["function_name"]: values["logging_config"] for kind, values in planned if kind == "aws_lambda_function"}
    resources = json.loads(text)
    for kind, values in resources:
        if kind == "aws_lambda_function":
            values["logging_config"] = logging[values["function_name"]]
    # The template expects the source tables; the module can create them.
    return [(kind, values) for kind, values in resources if kind != "aws_dynamodb_table" or values["name"] == f"{name}-state"]


def differences(same, module, template):
    expected = settings(same, [values for kind, values in module if kind == same.module], 0)
    actual = settings(same, [values for kind, values in template if kind == same.template], 1)
    for name in sorted(expected.keys() | actual.keys()):
        ours, theirs = actual.get(name), expected.get(name)
        if ours is None or theirs is None:
            yield f"{same.template} {name} is only in the {'module' if ours is None else 'template'}"
            continue
        for path in same.settings:
            if ours[path] != theirs[path]:
                yield f"{same.template} {name}, {same.settings[path]}: {ours[path]}, and the module's {path}: {theirs[path]}"


def settings(same, resources, side):
    """The settings by the resource's name, then by the path in the module. A resource that has none of them is left out."""
    found = {}
    for values in map(folded, resources):
        (name,) = reached(values, same.name[side].split("."))
        parts = reached(values, same.each[side].split(".")) if same.each[side] else [values]
        for part in parts:
            element = "".join(f" {element}" for element in reached(part, same.element[side].split("."))) if same.each[side] else ""
            of_part = {paths[0]: sorted(canonical(reached(part, paths[side].split(".")), same)) for paths in same.settings.items()}
            if any(of_part.values()) or not same.settings:
                found[name + element] = of_part
    return found


def canonical(values, same):
    """Values as JSON; texts that are JSON are read. What stands for nothing is left out."""
    for value in values:
        if isinstance(value, str) and value.startswith("{"):
            value = json.loads(value)
        value = value.strip() if isinstance(value, str) else value
        is_nothing = value in (None, "", -1) or value is False or value == {} or (value == 0 and not same.is_zero_a_value)
        if not is_nothing:
            yield json.dumps(value, sort_keys=True)


def folded(node):
    """Lists of names and values are objects."""
    if isinstance(node, dict):
        return {name: folded(member) for name, member in node.items()}
    if isinstance(node, list):
        if node and all(isinstance(member, dict) and member.keys() == {"Name", "Value"} for member in node):
            return {member["Name"]: member["Value"] for member in node}
        return [folded(member) for member in node]
    return node


# --- Policies ---


def policy_differences(module, template):
    expected, actual = dict(policies_of_module(module)), dict(policies_of_template(template))
    assert len(expected) > 15, sorted(expected)
    for name in sorted(expected.keys() ^ actual.keys()):
        yield f"the policy {name} is only in the {'module' if name in expected else 'template'}"
    for name in sorted(expected.keys() & actual.keys()):
        ours, theirs = by_sid(actual[name]), by_sid(expected[name])
        for sid in sorted(ours.keys() ^ theirs.keys()):
            yield f"the statement {sid} {name} is only in the {'module' if sid in theirs else 'template'}"
        for sid in sorted(ours.keys() & theirs.keys()):
            if not allows_the_same(ours[sid], theirs[sid]):
                yield f"the statement {sid} {name}: {ours[sid]}, and the module's: {theirs[sid]}"


def policies_of_module(resources):
    for kind, values in resources:
        if kind == "aws_iam_role_policy":
            yield f"of the role {values['name']}", json.loads(values["policy"])
        if kind == "aws_iam_role":
            yield f"of who takes the {values['arn']}", json.loads(values["assume_role_policy"])
        if kind == "aws_iam_policy":
            yield "of redrive", json.loads(values["policy"])
        if kind == "aws_sqs_queue_policy":
            yield f"of {values['queue_url']}", json.loads(values["policy"])
        if kind == "aws_s3_bucket_policy":
            yield f"of the bucket {values['bucket']}", json.loads(values["policy"])


def policies_of_template(resources):
    for kind, values in resources:
        if kind == "AWS::IAM::Role":
            (inline,) = values["Policies"]
            yield f"of the role {inline['PolicyName']}", inline["PolicyDocument"]
            yield f"of who takes the role {inline['PolicyName']}", values["AssumeRolePolicyDocument"]
        if kind == "AWS::IAM::ManagedPolicy":
            yield "of redrive", values["PolicyDocument"]
        if kind == "AWS::SQS::QueuePolicy":
            yield f"of {values['Queues'][0]}", values["PolicyDocument"]
        if kind == "AWS::S3::BucketPolicy":
            yield f"of the bucket {values['Bucket']}", values["PolicyDocument"]


def by_sid(document):
    statements = {statement.get("Sid"): statement for statement in document["Statement"]}
    assert len(statements) == len(document["Statement"]), document
    return statements


def as_list(value):
    return value if isinstance(value, list) else [value]


def allows_the_same(ours, theirs):
    """The template may be narrower: it knows the stream, and the whole key of a rollup."""
    same = all(ours.get(part) == theirs.get(part) for part in ("Effect", "Principal"))
    same = same and sorted(as_list(ours["Action"])) == sorted(as_list(theirs["Action"]))
    resources = is_within(ours.get("Resource", []), theirs.get("Resource", []))
    return same and resources and conditions_are_within(ours.get("Condition", {}), theirs.get("Condition", {}))


def is_within(ours, theirs):
    """Each of our patterns is matched by one of theirs, and each of theirs matches one of ours."""
    ours, theirs = as_list(ours), as_list(theirs)
    covered = all(any(fnmatchcase(our, their) for their in theirs) for our in ours)
    return covered and all(any(fnmatchcase(our, their) for our in ours) for their in theirs)


def conditions_are_within(ours, theirs):
    ours, theirs = by_key(ours), by_key(theirs)
    if ours.keys() != theirs.keys():
        return False
    # A key must be usable at least through the services that the module names.
    services = ("StringEquals", "kms:ViaService")
    served = set(theirs.pop(services, [])) <= set(ours.pop(services, []))
    return served and all(is_within(ours[key], values) for key, values in theirs.items())


def by_key(condition):
    return {(operator, key): values for operator, keys in condition.items() for key, values in keys.items()}


# --- The dashboard ---


def dashboard_differences(module, template):
    (theirs,) = [panels(values["dashboard_body"]) for kind, values in module if kind == "aws_cloudwatch_dashboard"]
    (ours,) = [panels(values["DashboardBody"]) for kind, values in template if kind == "AWS::CloudWatch::Dashboard"] or [{}]
    # A deployment without caches has no panel for them; the template's shows the records that are relayed.
    missing = theirs.keys() - ours.keys()
    added = ours.keys() - theirs.keys() - {"Caches"}
    yield from (f"the panel {title} is only in one dashboard" for title in sorted(missing | added))
    for title in sorted(ours.keys() & theirs.keys()):
        if ours[title] != theirs[title]:
            yield f"the panel {title}: {ours[title]}, and the module's: {theirs[title]}"


def panels(text):
    """The settings of each panel, by its title; positions are left out, because CloudWatch can arrange the panels."""
    found = {}
    for widget in json.loads(text)["widgets"]:
        properties = widget["properties"]
        metrics = sorted(json.dumps(shown_metric(metric), sort_keys=True) for metric in properties.get("metrics", []))
        rest = {name: value for name, value in properties.items() if name not in ("metrics", "alarms")}
        found[properties["title"]] = [widget["type"], rest, metrics, sorted(properties.get("alarms", []))]
    return found


def shown_metric(metric):
    """A metric's namespace and name, its dimensions in any order, and how it is shown."""
    shown = metric.pop() if isinstance(metric[-1], dict) else {}
    namespace, name, *dimensions = metric
    return [namespace, name, dict(zip(dimensions[::2], dimensions[1::2], strict=True)), shown]
