"""The client for programs without asyncio."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Optional, Type

from ._core import Core
from ._encode import line_of
from ._types import Record


class Client(Core):
    """Sends records to one pipe, from any number of threads.

    A thread in the background sends them in batches. Close the client at the end, or use it with `with`. If it is not
    closed, the end of the process waits up to `exit_timeout` seconds for what is pending.
    """

    def send(self, record: Record) -> bool:
        """Puts a record into the queue. Returns False if it was dropped.

        With a spool the record is in its file when this returns. With `when_full="block"` it waits for space. Throws
        TypeError or ValueError if the record is not a JSON object.
        """
        line = line_of(record, self._encode)
        while True:
            added = self._append(line, self._blocks)
            if added is not None:
                return added
            space = threading.Event()
            self._when_space(space.set)
            space.wait()

    def flush(self, timeout: Optional[float] = None) -> bool:
        """Sends what is pending now, and waits until it is stored or dropped. Returns False after `timeout` seconds."""
        done = threading.Event()
        waiter = done.set
        if self._when_flushed(waiter):
            return self._left == 0
        try:
            return done.wait(timeout) and self._left == 0
        finally:
            self._forget_waiter(waiter)

    def close(self, timeout: float = 10.0) -> int:
        """Sends what is pending, for at most `timeout` seconds. Returns the number of records that were not stored.

        These records stay in the spool for the next client, or are dropped with the reason `closed`.
        """
        self._begin_close()
        return self._finish(time.monotonic() + timeout)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
