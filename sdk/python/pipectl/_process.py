"""The end and the forks of the process, for all clients that are open."""

from __future__ import annotations

import atexit
import os
import time
from typing import TYPE_CHECKING, List, Set

if TYPE_CHECKING:
    from ._core import Core

_open: "Set[Core]" = set()
_held: "List[Core]" = []


def add(client: "Core") -> None:
    _open.add(client)


def remove(client: "Core") -> None:
    _open.discard(client)


def _at_exit() -> None:
    # All of them send at the same time, so the process waits as long as the longest.
    started = time.monotonic()
    clients = list(_open)
    for client in clients:
        client._begin_close()
    for client in clients:
        client._finish(started + client._exit_timeout)


def _before_fork() -> None:
    # The child gets a copy of the memory: no other thread may be in the middle of a change.
    _held.extend(_open)
    for client in _held:
        client._lock.acquire()


def _after_in_parent() -> None:
    for client in _held:
        client._lock.release()
    _held.clear()


def _after_in_child() -> None:
    for client in _held:
        client._forget()
    _held.clear()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
