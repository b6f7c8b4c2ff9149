#!/usr/bin/env python3
"""Sends the lines of stdin, one JSON object each, to a pipe:  python3 send.py < records.ndjson

PIPECTL_INGEST_URL is https://…/v1/ingest/PIPE_ID, PIPECTL_API_KEY a key with the scope ingest.
Exits with 0 once every record is stored, otherwise with 1. Python 3.8 or newer, only its standard library.
"""
import http.client
import os
import random
import sys
import time
import urllib.error
import urllib.request
import uuid

BATCH_RECORDS = 500
BATCH_BYTES = 1_000_000
ATTEMPTS = 8
TIMEOUT_SECONDS = 10
LONGEST_WAIT_SECONDS = 300


def post(url, headers, body):
    """Status, text and Retry-After of the response; status 0 where there was none."""
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            return response.status, response.read(), 0
    except urllib.error.HTTPError as error:
        retry_after = error.headers.get("Retry-After", "")
        return error.code, error.read(500), int(retry_after) if retry_after.isdigit() else 0
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error).encode(), 0


def send_batch(url, api_key, batch):
    headers = {
        "Authorization": f"Bearer {api_key}",
        "Content-Type": "application/x-ndjson",
        # The same key in every attempt: a batch whose response was lost is not stored again.
        "Idempotency-Key": str(uuid.uuid4()),
    }
    for attempt in range(ATTEMPTS):
        status, text, retry_after = post(url, headers, b"".join(batch))
        if status == 202:
            return len(batch)
        may_pass = status in (0, 408, 429) or status >= 500
        if not may_pass or attempt == ATTEMPTS - 1:
            sys.exit(f"send: {status or 'no response'} {text.decode(errors='replace')}")
        backoff = 2**attempt * random.uniform(0.5, 1)
        time.sleep(min(retry_after or backoff, LONGEST_WAIT_SECONDS))


def main():
    url = os.environ.get("PIPECTL_INGEST_URL")
    api_key = os.environ.get("PIPECTL_API_KEY")
    if not url or not api_key:
        sys.exit("send: PIPECTL_INGEST_URL and PIPECTL_API_KEY must be set")
    sent, batch, size = 0, [], 0
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        batch.append(line.rstrip(b"\n") + b"\n")
        size += len(line)
        if len(batch) == BATCH_RECORDS or size >= BATCH_BYTES:
            sent += send_batch(url, api_key, batch)
            batch, size = [], 0
    if batch:
        sent += send_batch(url, api_key, batch)
    print(f"{sent} records stored")


main()
