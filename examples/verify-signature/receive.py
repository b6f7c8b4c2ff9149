# Receives what pipectl delivers, if it is genuine:  PIPECTL_SIGNING_SECRET=whsec_… PORT=8000 python3 receive.py
import base64
import hashlib
import hmac
import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 300
MAX_BODY_BYTES = 64 * 1024 * 1024


def is_genuine(headers, body, key):
    """Whether this body, the bytes as they arrived, was signed with this key less than five minutes ago."""
    webhook_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    if not webhook_id or not re.fullmatch("[0-9]{1,12}", timestamp):
        return False
    if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    # During a change of the secret there are several signatures.
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(one.encode(), expected) for one in given)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            return self.respond(413)
        body = self.rfile.read(int(length))
        if not is_genuine(self.headers, body, key):
            return self.respond(401)
        # Store the records here, then respond. A repeated request has the same webhook-id.
        print(self.headers["webhook-id"], body.decode(), flush=True)
        self.respond(204)

    def respond(self, status):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


secret = os.environ.get("PIPECTL_SIGNING_SECRET", "")
key = base64.b64decode(re.sub("^whsec_", "", secret))
if not key:
    sys.exit("PIPECTL_SIGNING_SECRET must be set to whsec_ and base64")
ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Receiver).serve_forever()
