"""The types that users of the package see."""

from __future__ import annotations

from typing import Any, Literal, Mapping, NamedTuple, Union

Record = Union[Mapping[str, Any], str, bytes]
"""A JSON object: a mapping, or its text, which is sent as it is and so keeps every digit."""

DropReason = Literal["rejected", "full", "closed", "spool"]
"""Why records were discarded.

`rejected`: the daemon rejects the record permanently. `full`: the queue exceeded its limits and these were the oldest
records, or one record is larger than the limits. `closed`: the client was closed before they were stored. `spool`: a file
of the spool could not be read.
"""


class Stats(NamedTuple):
    """Counts since the client was made, or since the fork of the process."""

    stored: int
    """Records that the daemon has acknowledged."""
    dropped: int
    """Records that were discarded. `on_drop` was called with them."""
    pending: int
    """Records that are not stored yet."""
    failed_attempts: int
    """Requests without success, for any reason."""


class SendError(Exception):
    """An attempt that failed. It is passed to callbacks and never raised."""

    def __init__(self, status: int, code: str, message: str, retry_seconds: float) -> None:
        self.status = status
        """The status of the response, or 0 without a response."""
        self.code = code or (f"http_{status}" if status else "no_response")
        """The error code of the daemon, `no_response`, or `http_STATUS` for responses of others."""
        self.message = message
        self.retry_seconds = retry_seconds
        """The time until the next attempt. 0 for records that are dropped."""
        super().__init__(f"{self.code}: {message}")
