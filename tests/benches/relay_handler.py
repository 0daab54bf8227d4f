"""A typical handwritten stream handler in Python: invalidates ExamBuddy's cache keys and archives every record.

    python relay_handler.py EVENTS REDIS_PORT FIREHOSE_ENDPOINT ROUNDS

EVENTS holds one event a line. Prints the processor seconds of handling (without imports and clients), the seconds by the clock,
and the number of handled records, as JSON.
"""

import json
import sys
import time

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


def handle(event, cache, firehose):
    keys = sorted({key for record in event["Records"] for key in keys_of(record)})
    pipeline = cache.pipeline(transaction=False)
    for key in keys:
        pipeline.unlink(key)
    pipeline.publish("afterwrite:invalidated", json.dumps(keys))
    pipeline.execute()
    lines = [{"Data": (json.dumps(record) + "\n").encode()} for record in event["Records"]]
    response = firehose.put_record_batch(DeliveryStreamName="changes", Records=lines)
    assert response["FailedPutCount"] == 0
    return {"batchItemFailures": []}


def main():
    path, port, endpoint, rounds = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    cache = redis.Redis(host="127.0.0.1", port=port)
    firehose = boto3.client(
        "firehose", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with open(path) as file:
        events = file.read().splitlines()
    handle(json.loads(events[0]), cache, firehose)
    cpu_start, wall_start, records = time.process_time(), time.perf_counter(), 0
    for _ in range(rounds):
        for event in events:
            event = json.loads(event)
            handle(event, cache, firehose)
            records += len(event["Records"])
    cpu_seconds, wall_seconds = time.process_time() - cpu_start, time.perf_counter() - wall_start
    print(json.dumps({"cpu_seconds": cpu_seconds, "wall_seconds": wall_seconds, "records": records}))


main()
