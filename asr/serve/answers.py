"""Large answers, made so that other requests need not wait."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any

from starlette.responses import Response


async def json_answer(make: Callable[[], Any]) -> Response:
    """Make a record and its JSON in a thread."""
    content = await asyncio.to_thread(lambda: _encoded(make()))
    return Response(content, media_type="application/json")


def _encoded(record: Any) -> bytes:
    """Encode a record value by value: `json.dumps` would stop all other threads until its end."""
    written = io.StringIO()
    for part in json.JSONEncoder(allow_nan=False, separators=(",", ":")).iterencode(record):
        written.write(part)
    return written.getvalue().encode()
