"""The client for asyncio. The same thread sends; only waiting is different."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any, Callable, Optional, Type

from ._core import Callback, Core
from ._encode import line_of
from ._types import Record


class AsyncClient(Core):
    """Sends records to one pipe, from one event loop.

    `on_drop` and `on_error` are called in the loop. A cancelled `flush` or `send` stops waiting, and loses nothing.
    """

    _loop: Optional[asyncio.AbstractEventLoop] = None

    async def send(self, record: Record) -> bool:
        """Puts a record into the queue. Returns False if it was dropped.

        With a spool the record is in its file when this returns. It waits only with `when_full="block"`, for space. Throws
        TypeError or ValueError if the record is not a JSON object.
        """
        self._loop = asyncio.get_running_loop()
        line = line_of(record, self._encode)
        while True:
            added = self._append(line, self._blocks)
            if added is not None:
                return added
            await self._until(self._when_space_of, None)

    async def flush(self, timeout: Optional[float] = None) -> bool:
        """Sends what is pending now, and waits until it is stored or dropped. Returns False after `timeout` seconds."""
        self._loop = asyncio.get_running_loop()
        return await self._until(self._when_flushed, timeout) and self._left == 0

    async def close(self, timeout: float = 10.0) -> int:
        """Sends what is pending, for at most `timeout` seconds. Returns the number of records that were not stored.

        These records stay in the spool for the next client, or are dropped with the reason `closed`.
        """
        self._loop = asyncio.get_running_loop()
        self._begin_close()
        await self._until(self._when_flushed, timeout)
        # Nothing is pending, or the time is over: the thread ends within a moment, and does not block the loop for it.
        return await self._loop.run_in_executor(None, self._finish, time.monotonic())

    def _when_space_of(self, waiter: Callback) -> bool:
        self._when_space(waiter)
        return False

    async def _until(self, register: Callable[[Callback], bool], timeout: Optional[float]) -> bool:
        """Waits for the waiter that `register` has got, unless it returns True. False after the timeout."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def waiter() -> None:
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:
                # The loop is closed, and nothing in it waits.
                pass

        if register(waiter):
            return True
        try:
            await asyncio.wait_for(done.wait(), timeout)
            return True
        except asyncio.TimeoutError:
            return False
        finally:
            self._forget_waiter(waiter)

    def _call(self, callback: Callable[..., None], *args: Any) -> None:
        loop = self._loop
        try:
            if loop is None:
                raise RuntimeError
            loop.call_soon_threadsafe(super()._call, callback, *args)
        except RuntimeError:
            # Before the first record and after the end of the loop there is no loop to call it in.
            super()._call(callback, *args)

    async def __aenter__(self) -> "AsyncClient":
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()
