"""Batches in files, which survive the process.

    SPOOL/
      3f0c…/                              one directory for each client, so that processes can share SPOOL
        lock                              locked while its client lives
        000000000007.open                 records, one line each, that are in no request yet
        000000000003_<uuid>.ndjson        a batch with its Idempotency-Key; its bytes never change

A client takes the directories of clients that have ended, and sends their batches first. `send` has written the record to
its file when it returns, so `kill -9` loses nothing. The file is flushed to the disk before its first request, so a power cut loses
at most the records of the last moments that no request had.

What a crash leaves behind:

    while a line is written            a last line without its end: `send` had not returned, and the line is removed
    before `.open` is renamed          no request had it: it gets a key now
    after the 202, before the removal  the same bytes are sent again with the same key, and are stored once
    while a batch is split             the batch is there: halves that exist are removed, because none is sent before the
                                       batch is gone
    after the batch of a split is gone its halves, with their keys
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from typing import Dict, List, Optional, Set

from ._queue import Batch, halves_of
from ._reports import log

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"
OPEN = ".open"
CLOSED = ".ndjson"
UNFINISHED = ".tmp"
# With a dot until its client has locked it.
DIRECTORY_NAME = re.compile(r"\.?[0-9a-f]{32}")
CLOSED_NAME = re.compile(r"[\d.]+_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.ndjson")


class Spool:
    keeps = True

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        self._own = ""
        # The descriptors of the lock files of the directories that belong to this client.
        self._locks: Dict[str, int] = {}
        self._writer: Optional[int] = None
        self._written = 0
        # Keys of batches whose split failed, so that there can be halves of them.
        self._half_split: Set[str] = set()

    def recover(self) -> List[Batch]:
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        batches: List[Batch] = []
        names = filter(DIRECTORY_NAME.fullmatch, os.listdir(self._root))
        for directory in sorted((os.path.join(self._root, name) for name in names), key=_time_of):
            if directory not in self._locks and self._lock(directory):
                found = _batches_in(directory)
                batches += found
                if not found:
                    self._remove_directory(directory)
        return batches

    def append(self, batch: Batch, line: bytes) -> bool:
        if batch.lines:
            batch.lines.append(line)
            return True
        try:
            self._write(batch, line)
            return True
        except OSError as error:
            if batch.records > 0:
                return False
            log.error("the spool cannot be written, the next records are kept in memory: %s", error)
        self._drop_empty_file(batch)
        batch.lines.append(line)
        return True

    def _drop_empty_file(self, batch: Batch) -> None:
        self.finish(batch)
        with contextlib.suppress(OSError):
            os.unlink(batch.path)
        batch.path = ""

    def _write(self, batch: Batch, line: bytes) -> None:
        if self._writer is None or not batch.path:
            batch.path = os.path.join(self._directory(), batch.order + OPEN)
            self._writer = os.open(batch.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            self._written = 0
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._writer, rest) :]
        except OSError:
            # A full disk takes a part of a line. The next line must not continue it.
            os.ftruncate(self._writer, self._written)
            os.lseek(self._writer, self._written, os.SEEK_SET)
            raise
        self._written += len(line)

    def finish(self, batch: Batch) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            os.close(writer)

    def sync(self, batch: Batch) -> None:
        # A batch in memory has no file.
        if not batch.path.endswith(OPEN):
            return
        _sync_file(batch.path)
        closed = _closed_name(os.path.dirname(batch.path), batch)
        os.rename(batch.path, closed)
        batch.path = closed
        _sync_directory(os.path.dirname(closed))

    def load(self, batch: Batch) -> List[bytes]:
        if batch.lines:
            return batch.lines
        with open(batch.path, "rb") as file:
            return file.readlines()

    def remove(self, batch: Batch) -> None:
        if batch.lines:
            return
        directory = os.path.dirname(batch.path)
        if batch.key in self._half_split:
            for half in halves_of(batch):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(_closed_name(directory, half))
        os.unlink(batch.path)
        if directory in self._locks and directory != self._own and os.listdir(directory) == [LOCK]:
            self._remove_directory(directory)

    def split(self, batch: Batch, first: Batch, second: Batch) -> None:
        if batch.lines:
            return
        directory = os.path.dirname(batch.path)
        self._half_split.add(batch.key)
        for half in (first, second):
            half.path = _closed_name(directory, half)
            with open(half.path + UNFINISHED, "wb") as file:
                file.writelines(half.lines)
                file.flush()
                os.fsync(file.fileno())
            os.replace(half.path + UNFINISHED, half.path)
        _sync_directory(directory)
        os.unlink(batch.path)
        self._half_split.discard(batch.key)
        # Before a half is sent: a batch that came back would be sent as well as its halves. The split has happened, even
        # if the disk does not confirm it.
        with contextlib.suppress(OSError):
            _sync_directory(directory)
        for half in (first, second):
            half.lines = []

    def forget(self) -> None:
        # Closing a copy of a descriptor does not release the lock of the parent.
        for descriptor in [*self._locks.values(), *([] if self._writer is None else [self._writer])]:
            os.close(descriptor)
        self._locks, self._writer, self._own = {}, None, ""

    def close(self) -> None:
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None
        for directory in list(self._locks):
            if os.listdir(directory) == [LOCK]:
                self._remove_directory(directory)
            else:
                os.close(self._locks.pop(directory))
        self._own = ""

    def _directory(self) -> str:
        """The directory of this client. It gets its name once it is locked."""
        while not self._own:
            name = uuid.uuid4().hex
            making, own = os.path.join(self._root, f".{name}"), os.path.join(self._root, name)
            os.mkdir(making, 0o700)
            # Another client can take it before it is locked, and removes it.
            if self._lock(making) and self._rename_own(making, own):
                _sync_directory(self._root)
                self._own = own
        return self._own

    def _rename_own(self, making: str, own: str) -> bool:
        if os.name == "nt":
            # An open file keeps its directory from being renamed.
            os.close(self._locks.pop(making))
            os.rename(making, own)
            return self._lock(own)
        descriptor = self._locks.pop(making)
        try:
            os.rename(making, own)
        except FileNotFoundError:
            os.close(descriptor)
            return False
        self._locks[own] = descriptor
        return True

    def _lock(self, directory: str) -> bool:
        """False if another client has it, or has removed it meanwhile."""
        try:
            descriptor = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return False
        try:
            _lock_descriptor(descriptor)
        except OSError:
            os.close(descriptor)
            return False
        self._locks[directory] = descriptor
        return True

    def _remove_directory(self, directory: str) -> None:
        descriptor = self._locks.pop(directory, -1)
        try:
            if os.name == "nt":
                os.close(descriptor)
                descriptor = -1
            os.unlink(os.path.join(directory, LOCK))
            os.rmdir(directory)
        except OSError:
            # Another client has looked into it at this moment, and removes it.
            pass
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def _batches_in(directory: str) -> List[Batch]:
    """The batches of a client that has ended, in order, after cleaning up what its end has interrupted."""
    names = sorted(os.listdir(directory))
    for name in names:
        if name.endswith(UNFINISHED):
            os.unlink(os.path.join(directory, name))
    closed = [_closed_batch(directory, name) for name in names if CLOSED_NAME.fullmatch(name)]
    unfinished: Set[str] = {
        _closed_name(directory, half) for batch in closed for half in halves_of(batch)
    }
    for batch in closed:
        if batch.path in unfinished:
            os.unlink(batch.path)
    batches = [batch for batch in closed if batch.path not in unfinished]
    batches += [_keyed_batch(directory, name) for name in names if name.endswith(OPEN)]
    for batch in batches:
        _count(batch)
    for empty in [batch for batch in batches if batch.records == 0]:
        os.unlink(empty.path)
    return sorted((batch for batch in batches if batch.records > 0), key=lambda batch: batch.order)


def _closed_batch(directory: str, name: str) -> Batch:
    order, _, key = name[: -len(CLOSED)].partition("_")
    batch = Batch(key, order)
    batch.path = os.path.join(directory, name)
    return batch


def _keyed_batch(directory: str, name: str) -> Batch:
    """A batch of the records that were in no request yet."""
    batch = Batch(str(uuid.uuid4()), name[: -len(OPEN)])
    path = os.path.join(directory, name)
    with open(path, "r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
        file.flush()
        os.fsync(file.fileno())
    batch.path = _closed_name(directory, batch)
    os.rename(path, batch.path)
    _sync_directory(directory)
    return batch


def _count(batch: Batch) -> None:
    with open(batch.path, "rb") as file:
        for line in file:
            batch.records += 1
            batch.size += len(line)


def _closed_name(directory: str, batch: Batch) -> str:
    return os.path.join(directory, f"{batch.order}_{batch.key}{CLOSED}")


def _time_of(directory: str) -> float:
    try:
        return os.path.getmtime(directory)
    except FileNotFoundError:
        return 0.0


def _sync_file(path: str) -> None:
    _sync_opened(os.open(path, os.O_RDWR))


def _sync_directory(path: str) -> None:
    # Windows has no such call: a rename there is in the journal of the file system.
    if os.name == "nt":
        return
    _sync_opened(os.open(path, os.O_RDONLY))


def _sync_opened(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock_descriptor(descriptor: int) -> None:
    """Throws OSError if another client has locked the file."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
