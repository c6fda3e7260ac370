"""Bodies of requests: forms with an upload, and JSON, both of limited size."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.types import Message, Receive

from asr.errors import UserError
from asr.serve.errors import APIError

MOST_FIELDS: Final = 32
MOST_FIELD_BYTES: Final = 256 * 1024
MEGABYTE: Final = 1_000_000


@dataclass(frozen=True)
class Form:
    """The fields of a request; path: the upload as a file, which the request's end removes."""

    fields: Mapping[str, Sequence[str]]
    path: Path | None = None
    filename: str = ""

    def text(self, name: str, default: str = "") -> str:
        """Return the last value of a field; an empty one counts as absent."""
        return (self.fields.get(name) or [""])[-1] or default

    def texts(self, name: str) -> list[str]:
        """Return all values of a field, whether it is spelt `name` or `name[]`."""
        return [*self.fields.get(name, ()), *self.fields.get(f"{name}[]", ())]

    def flag(self, name: str) -> bool:
        """Return a boolean field.

        Raises:
            APIError: it is neither true nor false.
        """
        value = self.text(name, "false").lower()
        if value not in ("true", "false", "1", "0"):
            raise APIError(400, f"{name}: got {value!r}, wanted true or false", "bad_value", name)
        return value in ("true", "1")

    def named(self, error: Exception) -> Exception:
        """Return an error with the name of the recording in place of that of the upload's file."""
        if not isinstance(error, UserError) or self.path is None:
            return error
        return UserError(str(error).replace(str(self.path), self.filename))

    @property
    def audio(self) -> Path:
        """The upload.

        Raises:
            APIError: there is none.
        """
        if self.path is None:
            raise APIError(
                400, "no recording: wanted a form (multipart) with `file`", "no_file", "file"
            )
        return self.path


@asynccontextmanager
async def form_of(request: Request, most_bytes: float) -> AsyncIterator[Form]:
    """Read a form, or a JSON object in its place; an upload exists until the block ends.

    Raises:
        APIError: the body is too large, or neither.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    limited = Request(request.scope, _limited(request, most_bytes))
    if kind == "application/json":
        yield _from_json(await limited.body())
    elif kind in ("multipart/form-data", "application/x-www-form-urlencoded"):
        with tempfile.TemporaryDirectory(prefix="asr-") as folder:
            yield await _from_form(limited, Path(folder, "upload"))
    else:
        raise APIError(
            415, f"a body of type {kind!r}; wanted a form (multipart) or JSON", "bad_content_type"
        )


async def _from_form(request: Request, path: Path) -> Form:
    """Read a form and write its upload to a path."""
    fields: dict[str, list[str]] = {}
    filename = None
    try:
        given = await request.form(
            max_files=1, max_fields=MOST_FIELDS, max_part_size=MOST_FIELD_BYTES
        )
    except (KeyError, ValueError) as error:  # no boundary, or no valid encoding
        raise APIError(400, f"the form cannot be read: {error}", "bad_form") from None
    try:
        for name, value in given.multi_items():
            if isinstance(value, UploadFile):
                filename = value.filename or name
                await asyncio.to_thread(_copy, value.file, path)
            else:
                fields.setdefault(name, []).append(value)
    finally:
        await given.close()
    return Form(fields) if filename is None else Form(fields, path, filename)


def _from_json(body: bytes) -> Form:
    """Return an object of texts, lists of texts, numbers and booleans as a form."""
    found = json_object(body)
    if found is None:
        raise APIError(400, "the body is no JSON object in valid Unicode", "bad_json")
    return Form({name: _values(name, value) for name, value in found.items()})


def json_object(content: str | bytes) -> dict[str, Any] | None:
    """Return a JSON object; None if it is something else, or holds half a surrogate pair."""
    try:
        found = json.loads(content)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _values(name: str, value: object) -> list[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, str | int | float) for each in values):
        raise APIError(400, f"{name}: wanted a text or a list of texts", "bad_value", name)
    return [each if isinstance(each, str) else json.dumps(each) for each in values]


def _copy(source: BinaryIO, path: Path) -> None:
    with path.open("wb") as target:
        shutil.copyfileobj(source, target)


def _limited(request: Request, most_bytes: float) -> Receive:
    """Return the stream of a body that raises `APIError` above a size, before it is read."""
    too_large = APIError(
        413, f"the body is larger than {most_bytes / MEGABYTE:g} MB", "body_too_large"
    )
    stated = request.headers.get("content-length", "0")
    if stated.isdecimal() and int(stated) > most_bytes:
        raise too_large
    seen = 0

    async def receive() -> Message:
        nonlocal seen
        message = await request.receive()
        seen += len(message.get("body", b""))
        if seen > most_bytes:
            raise too_large
        return message

    return receive
