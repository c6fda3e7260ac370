"""WebSocket `/v1/live`: samples in, partial and final text out.

The client sends {"type": "start", "rate": 16000}, then 16-bit little-endian samples of one channel
as binary messages, at last {"type": "stop"}. The service sends "ready", "partial" and "final"
messages, and "done" with the whole text, or "error".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.websockets import WebSocket, WebSocketDisconnect

from asr.audio.read import SAMPLE_RATE
from asr.inference.live import Event, Finalised, LiveText, pcm_samples
from asr.results import Segment, Transcript, without_attention
from asr.serve.endpoint import bearer, require_right_key
from asr.serve.errors import APIError, as_api_error
from asr.serve.forms import json_object
from asr.serve.service import Service
from asr.serve.verbose import segment_attention, subtitles_record

IDLE_SECONDS: Final = 60.0  # without a message, after which a session ends
NORMAL: Final = 1000  # codes of RFC 6455
GOING_AWAY: Final = 1001
REFUSED: Final = 1008


async def live(service: Service, socket: WebSocket) -> None:
    """Serve one session."""
    if _is_of_another_site(socket):
        await socket.close(REFUSED)
        return
    await socket.accept()
    code = NORMAL
    try:
        start = await _start(socket)
        require_right_key(service, bearer(socket) or str(start.get("api_key", "")))
        with service.session():
            session = _Session(service, socket, start)
            await session.run()
            code = GOING_AWAY if service.stopping.is_set() else NORMAL
    except WebSocketDisconnect:
        return
    except Exception as error:
        await _send(socket, {"type": "error", **as_api_error(error, "a live session").record()})
        code = REFUSED
    await _close(socket, code)


class _Session:
    """The text of one client."""

    def __init__(self, service: Service, socket: WebSocket, start: dict[str, Any]) -> None:
        rate = start.get("rate", SAMPLE_RATE)
        if not isinstance(rate, int) or isinstance(rate, bool):
            raise APIError(400, f"rate: got {rate!r}, wanted samples per second", "bad_value")
        self._service = service
        self._socket = socket
        self._has_attention = bool(start.get("attention", False))
        self._has_subtitles = bool(start.get("subtitles", False))
        self._text = LiveText(service.recognizer, rate)
        self._segments: list[Segment] = []

    async def run(self) -> None:
        """Recognise until the client stops or the service does."""
        loaded = self._service.recognizer.loaded
        await _send(
            self._socket,
            {
                "type": "ready",
                "model": self._service.name,
                "seconds_per_annotation": loaded.seconds_per_annotation,
            },
        )
        while (chunk := await self._chunk()) is not None:
            await self._push(partial(self._text.push, pcm_samples(chunk)))
            if self._text.duration > self._service.limits.max_seconds:
                break
        await self._push(self._text.finish)
        await _send(self._socket, self._done())

    def _done(self) -> dict[str, Any]:
        """Return the last message."""
        seconds = self._service.recognizer.loaded.seconds_per_annotation
        transcript = Transcript(None, self._text.duration, seconds, tuple(self._segments))
        subtitles = subtitles_record(transcript) if self._has_subtitles else {}
        return {"type": "done", "text": transcript.written, **subtitles}

    async def _chunk(self) -> bytes | None:
        """Return the next samples; None at the end.

        Raises:
            APIError: a message is neither samples nor "stop".
        """
        receiving = asyncio.ensure_future(self._socket.receive())
        stopping = asyncio.ensure_future(self._service.stopping.wait())
        try:
            await asyncio.wait(
                (receiving, stopping), timeout=IDLE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if not receiving.done():
                return None
            return _samples(receiving.result())
        finally:
            receiving.cancel()
            stopping.cancel()

    async def _push(self, work: Callable[[], Iterable[Event]]) -> None:
        """Send what some work in a thread finds."""
        for event in await self._service.run_live(lambda: [*work()]):
            record = event.record()
            if isinstance(event, Finalised):
                self._segments.append(without_attention(event.segment))
                if self._has_attention:
                    record["attention"] = segment_attention(event.segment)
            await _send(self._socket, record)


def _samples(message: Any) -> bytes | None:
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", GOING_AWAY))
    content = message.get("bytes")
    if content is None:
        if (json_object(message.get("text") or "") or {}).get("type") == "stop":
            return None
        raise APIError(400, 'wanted samples, or {"type": "stop"}', "bad_message")
    if len(content) % 2:
        raise APIError(400, f"{len(content)} bytes: wanted whole 16-bit samples", "bad_message")
    return bytes(content)


async def _start(socket: WebSocket) -> dict[str, Any]:
    """Return the first message.

    Raises:
        APIError: it is no "start".
    """
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            message = await socket.receive()
    except TimeoutError:
        raise APIError(408, "no message came", "timeout") from None
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", GOING_AWAY))
    start = json_object(message.get("text") or "") or {}
    if start.get("type") != "start":
        raise APIError(400, 'wanted {"type": "start", "rate": HZ} first', "bad_message")
    return start


def _is_of_another_site(socket: WebSocket) -> bool:
    """Whether a browser opened this from a page of another host."""
    origin = socket.headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc != socket.headers.get("host")
    except ValueError:  # it is no address
        return True


async def _send(socket: WebSocket, record: dict[str, Any]) -> None:
    try:
        await socket.send_text(json.dumps(record))
    except RuntimeError:  # the client has closed the connection already
        raise WebSocketDisconnect(GOING_AWAY) from None


async def _close(socket: WebSocket, code: int) -> None:
    try:
        await socket.close(code)
    except RuntimeError:  # as above
        return
