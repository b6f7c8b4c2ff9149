"""Sends JSON records to a pipe of pipectl: batched, with retries, each record stored once.

    from pipectl import Client

    with Client("https://pipes.example.com/v1/ingest/PIPE_ID", "ppl1_…") as pipe:
        pipe.send({"event": "signup", "user_id": 42})

`AsyncClient` has the same methods for asyncio. Both need only the standard library.
"""

from ._async_client import AsyncClient
from ._client import Client
from ._types import DropReason, Record, SendError, Stats
from ._version import __version__

__all__ = ["AsyncClient", "Client", "DropReason", "Record", "SendError", "Stats", "__version__"]
