"""Records as the lines of a request."""

from __future__ import annotations

import datetime
import json
import uuid
from typing import Any, Callable, Mapping

from ._types import Record


def encode_json(record: Mapping[str, Any]) -> str:
    """JSON text, with times in ISO 8601 and UUIDs as text. Throws TypeError or ValueError for values that JSON lacks."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_text_of)


def _text_of(value: object) -> object:
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"JSON has no {type(value).__name__}: convert it, or set the option encode")


def line_of(record: Record, encode: Callable[[Mapping[str, Any]], str]) -> bytes:
    """Throws TypeError if the record is not a JSON object, and TypeError or ValueError if it cannot be encoded."""
    if isinstance(record, Mapping):
        text = encode(record)
    elif isinstance(record, (str, bytes)):
        text = record if isinstance(record, str) else record.decode("utf-8")
    else:
        raise TypeError(f"a record is a mapping, or the text of a JSON object, not a {type(record).__name__}")
    # JSON has line ends only between values, where a space means the same.
    text = text.strip().replace("\r", " ").replace("\n", " ")
    if not text.startswith("{"):
        raise TypeError("a record is a JSON object")
    return text.encode("utf-8") + b"\n"
