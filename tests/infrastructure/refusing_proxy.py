"""A proxy in front of moto that refuses one action, in the form of the service, and leaves out what a key encrypts, as AWS does."""

import http.client
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

# Not an action of a request: what a key encrypts cannot be read.
DECRYPT = "kms:Decrypt"
REFUSAL = {"ErrorCode": "AccessDeniedException", "Message": "not authorized to perform kms:Decrypt"}
S3_REFUSAL = "<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class RefusingProxy:
    def __init__(self, endpoint):
        self.upstream = urlsplit(endpoint).netloc
        self.refused = None
        self.seen = set()

    def __enter__(self):
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_request(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, content = proxy.respond(self.command, self.path, self.headers, body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = handle_request

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def respond(self, method, path, headers, body):
        action = action_of(path, headers)
        self.seen.add(action)
        if action == self.refused:
            return refusal(action)
        connection = http.client.HTTPConnection(self.upstream, timeout=30)
        forwarded = {name: value for name, value in headers.items() if name.lower() != "connection"}
        connection.request(method, path, body=body, headers=forwarded)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        dropped = {"content-length", "transfer-encoding", "connection"}
        kept = {name: value for name, value in response.getheaders() if name.lower() not in dropped}
        if response.status == 200:
            content = self.without_encrypted(action, content)
        return response.status, kept, content

    def without_encrypted(self, action, content):
        """A list of mappings has no filters that a key encrypts; one mapping, and the environment of a function, need the key."""
        if action == "lambda:ListEventSourceMappings":
            listed = json.loads(content)
            for mapping in listed["EventSourceMappings"]:
                if mapping.get("KMSKeyArn"):
                    mapping.pop("FilterCriteria", None)
            return json.dumps(listed).encode()
        if self.refused == DECRYPT and action in ("lambda:GetEventSourceMapping", "lambda:GetFunctionConfiguration"):
            part = json.loads(content)
            if part.get("KMSKeyArn") and action == "lambda:GetEventSourceMapping":
                part.pop("FilterCriteria", None)
                part["FilterCriteriaError"] = REFUSAL
            elif part.get("KMSKeyArn"):
                part["Environment"] = {"Error": REFUSAL}
            return json.dumps(part).encode()
        return content


def action_of(path, headers):
    # `Credential=<key>/<date>/<region>/<service>/aws4_request`
    service = headers["Authorization"].split("Credential=")[1].split("/")[3]
    target = headers.get("X-Amz-Target", "")
    if target:
        return f"{service}:{target.rsplit('.', 1)[1]}"
    url = urlsplit(path)
    if service == "lambda":
        if re.search(r"/event-source-mappings/?$", url.path):
            return "lambda:ListEventSourceMappings"
        return "lambda:GetEventSourceMapping" if "/event-source-mappings/" in url.path else "lambda:GetFunctionConfiguration"
    assert service == "s3", f"a request to {service}: {path}"
    if "notification" in url.query:
        return "s3:GetBucketNotification"
    return "s3:GetObject" if url.path.strip("/").count("/") else "s3:ListBucket"


def refusal(action):
    message = f"not authorized to perform {action}"
    kind = {"__type": "com.amazon.coral.service#AccessDeniedException", "Message": message}
    match action.split(":")[0]:
        case "s3":
            return 403, {"Content-Type": "application/xml"}, S3_REFUSAL.encode()
        case "lambda":
            return 403, {"X-Amzn-ErrorType": "AccessDeniedException"}, json.dumps({"Message": message}).encode()
        case "sqs":
            return 403, {"x-amzn-query-error": "AccessDenied;Sender"}, json.dumps(kind).encode()
    return 400, {}, json.dumps(kind).encode()
