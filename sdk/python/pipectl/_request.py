"""One HTTP connection to an ingest URL, and the meaning of its responses."""

from __future__ import annotations

import codecs
import email.utils
import enum
import gzip
import http.client
import json
import socket
import ssl
import time
import urllib.parse
from typing import Dict, NamedTuple, Optional

from ._version import __version__

# The daemon's responses to ingest requests are shorter. A proxy's error page can be longer, and nothing needs it.
LONGEST_RESPONSE_BYTES = 65_536
# Compressing less costs more than it saves.
SMALLEST_COMPRESSED_BYTES = 1_024
# A wrong clock of a proxy must not stop a sender for days. The browser script has the same limit.
LONGEST_PAUSE_SECONDS = 3_600.0


# The first connection would import this codec. In a fork that happens at the same moment, and while the interpreter ends, that
# fails with `LookupError: unknown encoding: idna`.
codecs.lookup("idna")


class Response(NamedTuple):
    status: int
    """0 if there was no response."""
    code: str
    message: str
    retry_after: float


class Verdict(enum.Enum):
    STORED = "stored"
    # The batch is rejected as it is, and was not stored: it is halved until the rejected record is alone.
    REJECTED = "rejected"
    # Everything else, also 401, 403 and 404: a paused pipe or a new key makes the same request succeed.
    LATER = "later"


# These describe the URL or the connection and not the records: dropping records would lose all of them.
NOT_ABOUT_RECORDS = ("invalid_pipe_id", "bad_request")


def verdict_on(response: Response) -> Verdict:
    if response.status == 202:
        return Verdict.STORED
    if response.status == 413:
        return Verdict.REJECTED
    # Without a code of the daemon the response comes from a proxy, which has not read the records.
    is_from_daemon = response.code != "" and response.code not in NOT_ABOUT_RECORDS
    if response.status in (400, 422) and is_from_daemon:
        return Verdict.REJECTED
    return Verdict.LATER


class Connection:
    """Keeps one connection open. For one thread, except for `abort`."""

    def __init__(
        self, url: str, api_key: Optional[str], timeout: float, context: Optional[ssl.SSLContext], compress: bool
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url is not an http or https URL, such as https://pipes.example.com/v1/ingest/PIPE_ID")
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ValueError("api_key contains characters that no key has")
        self._host, self._port = parts.hostname, parts.port
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._timeout, self._compress = timeout, compress
        # Made here: reading the certificates fails at the start and not in the background.
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._headers = {"Content-Type": "application/x-ndjson", "User-Agent": f"pipectl-python/{__version__}"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._open: Optional[http.client.HTTPConnection] = None
        self._is_aborted = False

    def post(self, body: bytes, idempotency_key: str) -> Response:
        headers = {**self._headers, "Idempotency-Key": idempotency_key}
        # The daemon compares the decompressed bytes of two requests with one key.
        if self._compress and len(body) >= SMALLEST_COMPRESSED_BYTES:
            body = gzip.compress(body, 6, mtime=0)
            headers["Content-Encoding"] = "gzip"
        was_open = self._open is not None
        try:
            return self._request(body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # The server closes idle connections. The key makes it safe to send again at once, on a new connection.
            if not was_open or self._is_aborted or isinstance(error, socket.timeout):
                return Response(0, "", f"{type(error).__name__}: {error}", 0.0)
        try:
            return self._request(body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return Response(0, "", f"{type(error).__name__}: {error}", 0.0)

    def _request(self, body: bytes, headers: Dict[str, str]) -> Response:
        connection = self._open
        if connection is None:
            connection = self._new()
            # Known before it connects, so that `abort` finds it.
            self._open = connection
        connection.request("POST", self._path, body, headers)
        response = connection.getresponse()
        text = response.read(LONGEST_RESPONSE_BYTES)
        if response.will_close or not response.isclosed():
            self.close()
        code, message = _error_of(text)
        return Response(response.status, code, message, _seconds_of(response.getheader("Retry-After", "")))

    def _new(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)

    def limit(self, seconds: float) -> None:
        """No wait of a request takes longer."""
        self._timeout = max(0.1, min(self._timeout, seconds))

    def close(self) -> None:
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()

    def abort(self) -> None:
        """Ends the request that another thread waits for. There is none after it."""
        self._is_aborted = True
        connection = self._open
        sock = connection.sock if connection is not None else None
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def forget(self) -> None:
        """After a fork: the connection belongs to the parent process. Closes only this process's descriptor."""
        connection, self._open = self._open, None
        sock = connection.sock if connection is not None else None
        if sock is not None:
            socket.close(sock.detach())


def _error_of(text: bytes) -> "tuple[str, str]":
    try:
        parsed = json.loads(text)
    except ValueError:
        return "", text[:200].decode("utf-8", "replace")
    if not isinstance(parsed, dict):
        return "", ""
    code, message = parsed.get("error"), parsed.get("message")
    return (code if isinstance(code, str) else ""), (message if isinstance(message, str) else "")


def _seconds_of(retry_after: Optional[str]) -> float:
    """The seconds of a Retry-After header, which can be a number or a date; 0 without one."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, IndexError):
            return 0.0
    return min(max(seconds, 0.0), LONGEST_PAUSE_SECONDS)
