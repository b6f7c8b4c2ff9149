# Python 3.8 or newer, only its standard library. Stored once the status is 202; another one raises an error.
import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["PIPECTL_INGEST_URL"],
    data=json.dumps({"event": "signup", "user_id": 42}).encode(),
    headers={
        "Authorization": f"Bearer {os.environ['PIPECTL_API_KEY']}",
        "Content-Type": "application/json",
    },
)
urllib.request.urlopen(request, timeout=10).close()
