"""A typical handwritten stream handler in Python: invalidates ExamBuddy's cache keys and archives every record.

    python relay_handler.py EVENTS REDIS_PORT FIREHOSE_ENDPOINT ROUNDS [EVENTBRIDGE_ENDPOINT]

EVENTS holds one event a line. With EVENTBRIDGE_ENDPOINT, it also publishes the events of fixtures/exam-42/events.toml. Prints the processor seconds of handling (without imports and clients), the seconds by the clock,
and the number of handled records, as JSON.
"""

import hashlib
import json
import sys
import time
from decimal import Decimal

import boto3
import redis


def texts(image):
    return {name: value.get("S") for name, value in image.items()}


def keys_of(record):
    change = record["dynamodb"]
    partition, sort = change["Keys"]["PK"]["S"], change["Keys"]["SK"]["S"]
    for image in (change.get("OldImage"), change.get("NewImage")):
        if image is None:
            continue
        item = texts(image)
        if partition.startswith("USER#"):
            email = partition[5:]
            if item.get("user_id"):
                yield f"user:{item['user_id']}"
            yield f"user:email:{email}"
        elif partition.startswith("ADMIN#") and sort.startswith("PROJECT#"):
            admin, project = partition[6:], sort[8:]
            yield f"project:{project}"
            yield f"admin:{admin}:projects"
            archived = image.get("archived", {}).get("BOOL")
            yield f"admin:{admin}:projects:{'archived' if archived else 'active'}"
        elif partition.startswith("PROJECT#") and sort.startswith("QUESTION#"):
            yield f"project:{partition[8:]}:questions"
            yield f"question:{sort[9:]}"
        elif partition.startswith("CANDIDATE#") and sort.startswith("ATTEMPT#"):
            yield f"attempt:{sort[8:]}"
            yield f"candidate:{partition[10:]}:attempts"
            yield f"project:{item.get('project_id')}:attempts"
        elif partition.startswith("ATTEMPT#"):
            yield f"attempt:{partition[8:]}:answers"


def number(image, name):
    value = image.get(name, {}).get("N")
    return None if value is None else Decimal(value)


def is_passed(image):
    if image is None or image.get("status", {}).get("S") != "COMPLETED":
        return False
    score, total = number(image, "score"), number(image, "total_questions")
    return score is not None and total is not None and total > 0 and 100 * score >= 70 * total


def has_ten(image):
    return image is not None and (number(image, "question_count") or 0) >= 10


def plain(value):
    return None if value is None else int(value)


def details_of(change):
    partition, sort = change["Keys"]["PK"]["S"], change["Keys"]["SK"]["S"]
    old, new = change.get("OldImage"), change.get("NewImage")
    if partition.startswith("CANDIDATE#") and sort.startswith("ATTEMPT#"):
        if is_passed(new) and not is_passed(old):
            score, total = number(new, "score"), number(new, "total_questions")
            yield "attempt_passed", {
                "candidate_id": partition[10:],
                "attempt_id": sort[8:],
                "score": plain(score),
                "total_questions": plain(total),
                "percent": float(round(100 * score / total, 6)),
                "started_at:day": new["started_at"]["S"][:10],
            }
        if new is None:
            yield "attempt_gone", {"status": old["status"]["S"], "score": plain(number(old, "score"))}
    elif partition.startswith("ADMIN#") and sort.startswith("PROJECT#") and new is not None:
        count = plain(number(new, "question_count"))
        yield "project_changed", {"question_count": count}
        if has_ten(new) and not has_ten(old):
            yield "project_grew", {"question_count": count, "archived": new["archived"]["BOOL"]}
    elif partition.startswith("ATTEMPT#") and sort.startswith("ANSWER#") and new is not None:
        if new.get("is_correct", {}).get("BOOL"):
            yield "answer_correct", {"question_id": new["question_id"]["S"]}


def entries_of(record):
    change = record["dynamodb"]
    for name, detail in details_of(change):
        key = {attribute: value["S"] for attribute, value in change["Keys"].items()}
        position = f"{record['eventSourceARN'].split('/stream/')[1]}#{change['SequenceNumber']}"
        identity = hashlib.sha256(f"{name}:{position}:{key}".encode()).hexdigest()[:32]
        envelope = {"id": identity, "name": name, "key": key, "detail": detail, "operation": record["eventName"], "position": position}
        yield {
            "Source": "exams",
            "DetailType": name,
            "Detail": json.dumps(envelope),
            "EventBusName": "events",
            "Time": change["ApproximateCreationDateTime"],
        }


def publish(event, bus):
    entries = [entry for record in event["Records"] for entry in entries_of(record)]
    for first in range(0, len(entries), 10):
        response = bus.put_events(Entries=entries[first : first + 10])
        assert response["FailedEntryCount"] == 0


def handle(event, cache, firehose, bus):
    keys = sorted({key for record in event["Records"] for key in keys_of(record)})
    pipeline = cache.pipeline(transaction=False)
    for key in keys:
        pipeline.unlink(key)
    pipeline.publish("afterwrite:invalidated", json.dumps(keys))
    pipeline.execute()
    lines = [{"Data": (json.dumps(record) + "\n").encode()} for record in event["Records"]]
    response = firehose.put_record_batch(DeliveryStreamName="changes", Records=lines)
    assert response["FailedPutCount"] == 0
    if bus is not None:
        publish(event, bus)
    return {"batchItemFailures": []}


def client(service, endpoint):
    return boto3.client(service, endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


def main():
    path, port, endpoint, rounds = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    cache = redis.Redis(host="127.0.0.1", port=port)
    firehose = client("firehose", endpoint)
    bus = client("events", sys.argv[5]) if len(sys.argv) > 5 else None
    with open(path) as file:
        events = file.read().splitlines()
    handle(json.loads(events[0]), cache, firehose, bus)
    cpu_start, wall_start, records = time.process_time(), time.perf_counter(), 0
    for _ in range(rounds):
        for event in events:
            event = json.loads(event)
            handle(event, cache, firehose, bus)
            records += len(event["Records"])
    cpu_seconds, wall_seconds = time.process_time() - cpu_start, time.perf_counter() - wall_start
    print(json.dumps({"cpu_seconds": cpu_seconds, "wall_seconds": wall_seconds, "records": records}))


main()
