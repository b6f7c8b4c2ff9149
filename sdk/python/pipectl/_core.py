"""What both clients are made of: a queue, a thread that sends its batches, and the callers that wait for it.

The thread is started by the first record, so a client can be made before a process forks. Everything below `_lock` is
shared; the request, the disk and the callbacks of the user run without it.
"""

from __future__ import annotations

import os
import random
import ssl
import threading
import time
from typing import Any, Callable, List, Literal, Mapping, Optional, Tuple, Union

from . import _process
from ._encode import encode_json
from ._queue import Batch, Memory, Queue, Storage, halves_of
from ._request import Connection, Response, Verdict, verdict_on
from ._reports import OnDrop, OnError, Reports, call_safely, log
from ._spool import Spool
from ._types import DropReason, Stats

# A thread that is interrupted in its request ends within a moment, except while it looks up a name.
JOIN_SECONDS = 1.0
FOREVER = float("inf")

Callback = Callable[[], None]


class Core:
    def __init__(
        self,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        batch_records: int = 500,
        batch_bytes: int = 1_000_000,
        linger: float = 1.0,
        queue_records: int = 100_000,
        queue_bytes: int = 64_000_000,
        when_full: Literal["drop", "block"] = "drop",
        spool: Union[str, "os.PathLike[str]", None] = None,
        compress: bool = True,
        timeout: float = 10.0,
        retry_wait: float = 1.0,
        retry_max_wait: float = 60.0,
        exit_timeout: float = 5.0,
        ssl_context: Optional[ssl.SSLContext] = None,
        encode: Callable[[Mapping[str, Any]], str] = encode_json,
        on_drop: Optional[OnDrop] = None,
        on_error: Optional[OnError] = None,
    ) -> None:
        """`url` and `api_key`: of the pipe; by default PIPECTL_INGEST_URL and PIPECTL_API_KEY of the environment.

        Throws ValueError for a wrong option, and OSError if the spool directory cannot be used.
        """
        if url is None:
            url = os.environ.get("PIPECTL_INGEST_URL", "")
        api_key = api_key or os.environ.get("PIPECTL_API_KEY")
        if min(batch_records, batch_bytes, queue_records, queue_bytes, timeout, retry_wait, retry_max_wait) <= 0:
            raise ValueError("every size, timeout and wait is more than 0")
        if when_full not in ("drop", "block"):
            raise ValueError("when_full is neither 'drop' nor 'block'")
        self._connection = Connection(url, api_key, timeout, ssl_context, compress)
        self._storage: Storage = Memory()
        if spool is not None:
            self._storage = Spool(os.fspath(spool))
        self._queue = Queue(self._storage, batch_records, batch_bytes)
        self._queue_records, self._queue_bytes = queue_records, queue_bytes
        self._blocks = when_full == "block"
        self._linger = linger
        self._retry_wait, self._retry_max_wait = retry_wait, retry_max_wait
        self._exit_timeout = exit_timeout
        self._encode = encode
        self._reports = Reports(on_drop, on_error, self._call)
        self._is_closing = self._is_stopped = self._is_released = False
        self._left = 0
        self._reset()
        try:
            self._queue.recover()
        except OSError:
            self._storage.close()
            raise
        _process.add(self)
        if self._queue.records > 0:
            with self._lock:
                self._start_worker()

    def _reset(self) -> None:
        self._lock = threading.Condition()
        self._worker: Optional[threading.Thread] = None
        # The batch that the thread sends or writes, without the lock.
        self._busy: Optional[Batch] = None
        # Records before this number are sent without waiting for more.
        self._flush_target = 0
        # Called once the queue has settled so many records, or once there is space.
        self._flush_waiters: List[Tuple[int, Callback]] = []
        self._space_waiters: List[Callback] = []
        self._failures = 0
        self._resume_at = self._sync_at = 0.0
        self._reports.reset()

    @property
    def stats(self) -> Stats:
        with self._lock:
            reports = self._reports
            return Stats(reports.stored, reports.dropped, self._queue.records, reports.failed_attempts)

    # Records in

    def _append(self, line: bytes, may_block: bool) -> Optional[bool]:
        """True if the record is in the queue, False if it was dropped, None if there is no space yet."""
        reason: Optional[DropReason] = None
        dropped: List[Tuple[List[bytes], int]] = []
        waiters: List[Callback] = []
        with self._lock:
            if self._is_closing:
                reason = "closed"
            elif not self._has_space(len(line)):
                if may_block and self._can_wait(line):
                    return None
                dropped = self._make_space(len(line))
                waiters = self._due_waiters()
            if reason is None and self._has_space(len(line)):
                self._add(line)
            elif reason is None:
                reason = "full"
        for lines, records in dropped:
            self._reports.drop(lines, records, "full")
        if reason is not None:
            self._reports.drop([line], 1, reason)
        for waiter in waiters:
            waiter()
        return reason is None

    def _has_space(self, size: int) -> bool:
        queue = self._queue
        return queue.records < self._queue_records and queue.size + size <= self._queue_bytes

    def _can_wait(self, line: bytes) -> bool:
        # A callback of the user can send. It runs in the thread that makes the space.
        return len(line) <= self._queue_bytes and threading.current_thread() is not self._worker

    def _make_space(self, size: int) -> List[Tuple[List[bytes], int]]:
        """Removes the oldest batches, and returns their lines and records."""
        dropped: List[Tuple[List[bytes], int]] = []
        while size <= self._queue_bytes and not self._has_space(size):
            batch = self._queue.remove_oldest(self._busy)
            if batch is None:
                break
            lines: List[bytes] = []
            try:
                lines = self._storage.load(batch)
                self._storage.remove(batch)
            except OSError as error:
                log.error("a file of the spool cannot be removed: %s", error)
            dropped.append((lines, batch.records))
        return dropped

    def _add(self, line: bytes) -> None:
        batch = self._queue.open
        self._queue.append(line)
        self._start_worker()
        # Between the first record of a batch and its last one the thread has nothing to decide.
        if batch is None or self._queue.open is not batch:
            self._lock.notify_all()

    def _start_worker(self) -> None:
        if self._worker is not None and self._worker.is_alive():
            return
        worker = threading.Thread(target=self._work, name="pipectl", daemon=True)
        try:
            worker.start()
        except RuntimeError:
            # The interpreter is ending, and starts no threads: `_finish` sends in its own thread.
            return
        self._worker = worker

    # The thread

    def _work(self, deadline: Optional[float] = None) -> None:
        while True:
            batch, is_unsynced = self._next(deadline)
            if batch is None:
                return
            try:
                if is_unsynced:
                    self._sync(batch)
                else:
                    self._send(batch)
            except FileNotFoundError as error:
                log.error("a file of the spool is gone: %s", error)
                self._settle(batch, "spool", [])
            except OSError as error:
                self._postpone(Response(0, "", f"the spool: {error}", 0.0))
            except Exception as error:
                # The thread must not end while records are pending.
                log.exception("an attempt failed")
                self._postpone(Response(0, "", f"{type(error).__name__}: {error}", 0.0))
            finally:
                self._busy = None

    def _next(self, deadline: Optional[float]) -> Tuple[Optional[Batch], bool]:
        """Waits for a batch to write to the disk, or else to send. None: nothing is left, or the deadline is over."""
        with self._lock:
            while True:
                now = time.monotonic()
                if self._is_stopped or (deadline is not None and now >= deadline):
                    return None, False
                due = self._close_due_batch(now)
                due = min(due, deadline) if deadline is not None else due
                queue = self._queue
                if queue.unsynced and now >= self._sync_at:
                    self._busy = queue.unsynced.popleft()
                    return self._busy, True
                # A batch that is not on the disk yet is not sent.
                resume_at = self._sync_at if queue.unsynced else self._resume_at
                if queue.closed and now >= resume_at:
                    self._busy = queue.closed[0]
                    return self._busy, False
                if not queue.closed and self._is_closing:
                    return None, False
                due = min(due, resume_at) if queue.closed else due
                self._lock.wait(due - now if due < FOREVER else None)

    def _close_due_batch(self, now: float) -> float:
        """Closes the open batch if it is to be sent now. Otherwise returns the time at which it is."""
        batch = self._queue.open
        if batch is None:
            return FOREVER
        due = batch.since + self._linger
        if not (self._is_closing or self._flush_target > batch.first or now >= due):
            return due
        self._queue.close_batch()
        return FOREVER

    def _sync(self, batch: Batch) -> None:
        try:
            self._storage.sync(batch)
        except FileNotFoundError:
            raise
        except OSError as error:
            log.error("the spool cannot be written: %s", error)
            with self._lock:
                self._sync_at = time.monotonic() + self._retry_wait
                self._queue.unsynced.appendleft(batch)

    def _send(self, batch: Batch) -> None:
        lines = self._storage.load(batch)
        response = self._connection.post(b"".join(lines), batch.key)
        verdict = verdict_on(response)
        if verdict is Verdict.STORED:
            self._settle(batch, None, lines)
        elif verdict is Verdict.LATER:
            self._postpone(response)
        else:
            self._reports.count_failure()
            if batch.records == 1:
                self._settle(batch, "rejected", lines, response)
            else:
                self._split(batch, lines)

    def _split(self, batch: Batch, lines: List[bytes]) -> None:
        halves = halves_of(batch)
        middle = len(lines) // 2
        for half, own in zip(halves, (lines[:middle], lines[middle:])):
            half.lines, half.records, half.size = own, len(own), sum(map(len, own))
        halves[0].first, halves[1].first = batch.first, batch.first + middle
        self._storage.split(batch, *halves)
        with self._lock:
            self._queue.replace_first(batch, halves)

    def _settle(
        self, batch: Batch, reason: Optional[DropReason], lines: List[bytes], response: Optional[Response] = None
    ) -> None:
        """The batch is stored, or dropped for this reason."""
        try:
            self._storage.remove(batch)
        except FileNotFoundError:
            pass
        except OSError as error:
            # The next client sends it again, with its key.
            log.error("a file of the spool cannot be removed: %s", error)
        with self._lock:
            # A client that was closed meanwhile has counted it as left.
            if not self._queue.remove(batch):
                return
            self._failures = 0
            self._resume_at = 0.0
            if reason is None:
                self._reports.stored += batch.records
            waiters = self._due_waiters()
        if reason is not None:
            self._reports.drop(lines, batch.records, reason, response)
        for waiter in waiters:
            waiter()

    def _due_waiters(self) -> List[Callback]:
        settled = self._queue.settled
        due = [waiter for target, waiter in self._flush_waiters if target <= settled] + self._space_waiters
        self._flush_waiters = [one for one in self._flush_waiters if one[0] > settled]
        self._space_waiters = []
        return due

    def _postpone(self, response: Response) -> None:
        with self._lock:
            backoff = min(self._retry_wait * 2.0 ** min(self._failures, 30), self._retry_max_wait)
            self._failures += 1
            # Many clients fail at the same moment, and must not return at the same one.
            wait = max(backoff * random.uniform(0.5, 1.0), response.retry_after)
            self._resume_at = time.monotonic() + wait
            if self._is_stopped:
                return
        self._reports.count_failure()
        self._reports.failed(response, wait)

    def _call(self, callback: Callable[..., None], *args: Any) -> None:
        call_safely(callback, *args)

    # Waiting

    def _when_flushed(self, waiter: Callback) -> bool:
        """True if nothing is pending. Else calls `waiter`, in another thread, once everything so far is settled."""
        with self._lock:
            if self._is_stopped or self._queue.records == 0:
                return True
            self._flush_target = self._queue.appended
            self._flush_waiters.append((self._flush_target, waiter))
            self._start_worker()
            self._lock.notify_all()
            return False

    def _when_space(self, waiter: Callback) -> None:
        """Calls `waiter` once there can be space, at once if nothing is pending."""
        with self._lock:
            is_pending = self._queue.records > 0 and not self._is_closing
            if is_pending:
                self._space_waiters.append(waiter)
        if not is_pending:
            waiter()

    def _forget_waiter(self, waiter: Callback) -> None:
        with self._lock:
            self._flush_waiters = [one for one in self._flush_waiters if one[1] is not waiter]
            self._space_waiters = [one for one in self._space_waiters if one is not waiter]

    # The end

    def _begin_close(self) -> None:
        """From now on nothing is accepted, and what is pending is sent without waiting for more."""
        with self._lock:
            self._is_closing = True
            waiters, self._space_waiters = self._space_waiters, []
            self._lock.notify_all()
        for waiter in waiters:
            waiter()

    def _finish(self, deadline: float) -> int:
        """After `_begin_close`: waits until the deadline for what is pending. Returns the records that were not stored."""
        with self._lock:
            if self._is_stopped:
                return self._left
            if self._queue.records > 0:
                self._start_worker()
            worker = self._worker
        if worker is not None and worker.is_alive():
            worker.join(max(0.0, deadline - time.monotonic()))
        elif self._queue.records > 0:
            self._connection.limit(deadline - time.monotonic())
            self._work(deadline)
        with self._lock:
            self._is_stopped = True
            self._lock.notify_all()
        self._connection.abort()
        if worker is not None:
            worker.join(JOIN_SECONDS)
        return self._release()

    def _release(self) -> int:
        with self._lock:
            if self._is_released:
                return self._left
            self._is_released = True
            left = self._queue.take_all()
            self._left = sum(batch.records for batch in left)
            # The next client of a spool sends the others.
            lost = [batch for batch in left if not batch.path]
            waiters = [waiter for _, waiter in self._flush_waiters]
            self._flush_waiters = []
            self._storage.close()
        self._connection.close()
        _process.remove(self)
        if lost:
            lines = [line for batch in lost for line in batch.lines]
            self._reports.drop(lines, len(lines), "closed")
        for waiter in waiters:
            waiter()
        return self._left

    def _forget(self) -> None:
        """After a fork, in the child: the records are the parent's, and the thread does not exist here."""
        self._queue.forget()
        self._connection.forget()
        self._reset()
