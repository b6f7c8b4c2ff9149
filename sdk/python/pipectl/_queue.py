"""The records that are not stored yet, in batches.

    send() ──▶ open batch ──full, or old enough──▶ closed batch ──▶ … ──▶ first batch ──202──▶ removed

A batch gets its Idempotency-Key when it is made, and its bytes never change once it is closed. Only closed batches are
sent, one after the other, so records arrive in the order of `send`.

Nothing here locks: the caller does. A closed batch belongs to the thread that sends, which reads and writes its bytes
without the lock.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from typing import Deque, List, Optional, Protocol, Tuple


class Batch:
    __slots__ = ("key", "order", "first", "records", "size", "since", "lines", "path")

    def __init__(self, key: str, order: str) -> None:
        self.first = 0
        """The number of its first record, counted from the start of the client."""
        self.key = key
        """Its Idempotency-Key."""
        self.order = order
        """Sorts the batches of a spool directory."""
        self.records = 0
        self.size = 0
        self.since = time.monotonic()
        self.lines: List[bytes] = []
        """Its records, while they are in memory."""
        self.path = ""
        """The file of its records. Empty if they are only in memory."""


def halves_of(batch: Batch) -> Tuple[Batch, Batch]:
    """Two empty batches. Their keys follow from the key of the batch, so that a repeated split makes the same ones."""
    first, second = (
        Batch(str(uuid.uuid5(uuid.UUID(batch.key), half)), f"{batch.order}.{half}") for half in ("0", "1")
    )
    return first, second


class Storage(Protocol):
    """Keeps the bytes of batches, in memory or on disk. Methods throw OSError, except for `append`."""

    def recover(self) -> List[Batch]:
        """Returns the closed batches of clients that have ended, oldest first. They belong to this client now."""

    def append(self, batch: Batch, line: bytes) -> bool:
        """Adds a line to the open batch, completely or not at all. False: it has to be closed. An empty batch takes it."""

    def finish(self, batch: Batch) -> None:
        """The open batch is closed. Does not wait for the disk."""

    def sync(self, batch: Batch) -> None:
        """Writes a closed batch to the disk, under its key. Before its first request."""

    def load(self, batch: Batch) -> List[bytes]: ...

    def remove(self, batch: Batch) -> None: ...

    def split(self, batch: Batch, first: Batch, second: Batch) -> None:
        """Replaces a batch by its halves, whose lines are in memory."""

    def forget(self) -> None:
        """After a fork, in the child: everything belongs to the parent."""

    def close(self) -> None: ...


class Memory:
    """Batches in memory, which end with the process."""

    keeps = False

    def recover(self) -> List[Batch]:
        return []

    def append(self, batch: Batch, line: bytes) -> bool:
        batch.lines.append(line)
        return True

    def finish(self, batch: Batch) -> None: ...

    def sync(self, batch: Batch) -> None: ...

    def load(self, batch: Batch) -> List[bytes]:
        return batch.lines

    def remove(self, batch: Batch) -> None: ...

    def split(self, batch: Batch, first: Batch, second: Batch) -> None: ...

    def forget(self) -> None: ...

    def close(self) -> None: ...


class Queue:
    def __init__(self, storage: Storage, batch_records: int, batch_bytes: int) -> None:
        self._storage = storage
        self._batch_records, self._batch_bytes = batch_records, batch_bytes
        self._made = 0
        self.open: Optional[Batch] = None
        self.closed: Deque[Batch] = deque()
        self.unsynced: Deque[Batch] = deque()
        self.records = 0
        self.size = 0
        # Records that were ever in the queue.
        self.appended = 0

    def recover(self) -> None:
        for batch in self._storage.recover():
            batch.first = self.appended
            self.closed.append(batch)
            self._count(batch.records, batch.size)

    def _count(self, records: int, size: int) -> None:
        self.records += records
        self.size += size
        self.appended += records

    @property
    def settled(self) -> int:
        """All records before this number are stored or dropped."""
        oldest = self.closed[0] if self.closed else self.open
        return self.appended if oldest is None else oldest.first

    def append(self, line: bytes) -> None:
        if self.open is not None and self.open.size + len(line) > self._batch_bytes:
            self.close_batch()
        batch = self.open or self._new_batch()
        if not self._storage.append(batch, line):
            self.close_batch()
            batch = self._new_batch()
            self._storage.append(batch, line)
        batch.records += 1
        batch.size += len(line)
        self._count(1, len(line))
        if batch.records >= self._batch_records or batch.size >= self._batch_bytes:
            self.close_batch()

    def _new_batch(self) -> Batch:
        self._made += 1
        self.open = Batch(str(uuid.uuid4()), f"{self._made:012d}")
        self.open.first = self.appended
        return self.open

    def close_batch(self) -> None:
        batch, self.open = self.open, None
        if batch is not None and batch.records > 0:
            self._storage.finish(batch)
            self.closed.append(batch)
            self.unsynced.append(batch)

    def remove(self, batch: Batch) -> bool:
        """False if it is not in the queue any more. Its bytes are left to the caller."""
        if batch not in self.closed:
            return False
        self.closed.remove(batch)
        self.records -= batch.records
        self.size -= batch.size
        if batch in self.unsynced:
            self.unsynced.remove(batch)
        return True

    def replace_first(self, batch: Batch, halves: Tuple[Batch, Batch]) -> None:
        """The halves have the same records and bytes together."""
        if self.closed and self.closed[0] is batch:
            self.closed.popleft()
            self.closed.extendleft(reversed(halves))

    def remove_oldest(self, busy: Optional[Batch]) -> Optional[Batch]:
        """Removes and returns the oldest batch, except for the one that is being sent or written."""
        if all(batch is busy for batch in self.closed):
            self.close_batch()
        oldest = next((batch for batch in self.closed if batch is not busy), None)
        if oldest is not None:
            self.remove(oldest)
        return oldest

    def take_all(self) -> List[Batch]:
        """Removes every batch, for a client that closes without having stored them."""
        self.close_batch()
        batches = list(self.closed)
        self.closed.clear()
        self.unsynced.clear()
        self.records = self.size = 0
        return batches

    def forget(self) -> None:
        self.open = None
        self.take_all()
        self._storage.forget()
