"""What a client counts, and tells the callbacks of the user or else the log."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any, Callable, Dict, List, Optional

from ._request import Response
from ._types import DropReason, SendError

log = logging.getLogger("pipectl")

OnDrop = Callable[[List[Any], DropReason, Optional[SendError]], None]
OnError = Callable[[SendError], None]


def call_safely(callback: Callable[..., None], *args: Any) -> None:
    """An error of the user's code must not end the thread that sends."""
    try:
        callback(*args)
    except Exception:
        log.exception("a callback failed")


class Reports:
    """For any thread, without the lock of the client: a callback can use the client."""

    def __init__(self, on_drop: Optional[OnDrop], on_error: Optional[OnError], call: Callable[..., None]) -> None:
        self._on_drop, self._on_error, self._call = on_drop, on_error, call
        self.reset()

    def reset(self) -> None:
        self._lock = threading.Lock()
        self.stored = self.failed_attempts = 0
        self._dropped: Dict[DropReason, int] = {}

    @property
    def dropped(self) -> int:
        with self._lock:
            return sum(self._dropped.values())

    def count_failure(self) -> None:
        with self._lock:
            self.failed_attempts += 1

    def failed(self, response: Response, retry_seconds: float) -> None:
        error = _error_of(response, retry_seconds)
        if self._on_error is not None:
            self._call(self._on_error, error)
        else:
            log.warning("not stored, next attempt in %.1f s: %s", retry_seconds, error)

    def drop(self, lines: List[bytes], count: int, reason: DropReason, response: Optional[Response] = None) -> None:
        """`lines` is empty if the records cannot be read any more."""
        with self._lock:
            before = self._dropped.get(reason, 0)
            self._dropped[reason] = before + count
        error = None if response is None else _error_of(response, 0.0)
        if self._on_drop is not None:
            self._call(self._on_drop, [_parsed(line) for line in lines], reason, error)
        elif before.bit_length() != (before + count).bit_length():
            # One line for 1, 2, 4, 8 … records: a full queue drops many.
            log.error("%d records dropped so far: %s%s", before + count, reason, f": {error}" if error else "")


def _error_of(response: Response, retry_seconds: float) -> SendError:
    return SendError(response.status, response.code, response.message, retry_seconds)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line.decode("utf-8", "replace").rstrip("\n")
