"""`POST /v1/audio/transcriptions`, as in the OpenAI API."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from asr.inference.recognizer import Recognizer
from asr.render.transcripts import render
from asr.results import Segment, Transcript, without_attention
from asr.serve.answers import json_answer
from asr.serve.errors import APIError, as_api_error
from asr.serve.forms import Form
from asr.serve.service import Service
from asr.serve.verbose import attention_record, subtitles_record, verbose

FORMATS: Final = ("json", "text", "verbose_json", "srt", "vtt")
GRANULARITIES: Final = ("segment", "word")
INCLUDED: Final = ("attention", "subtitles", "logprobs")  # the last is accepted and gives nothing
LANGUAGES: Final = ("", "en", "english")


@dataclass(frozen=True)
class Wanted:
    """What a request asks for."""

    format: str
    words: bool
    segments: bool
    attention: bool
    subtitles: bool
    stream: bool
    recognizer: Recognizer

    @classmethod
    def of(cls, service: Service, form: Form) -> Wanted:
        """Read the fields of a request; those that have no meaning here are ignored.

        Raises:
            APIError: a value is not known, or the model is not served.
        """
        service.require_speech_model(form.text("model"))
        language = form.text("language").lower().replace("_", "-")
        _require("language", language.partition("-")[0], LANGUAGES)
        _require_temperature(form.text("temperature", "0"))
        kind = _require("response_format", form.text("response_format", "json"), FORMATS)
        granularities = form.texts("timestamp_granularities") or ["segment"]
        for each in granularities:
            _require("timestamp_granularities", each, GRANULARITIES)
        for each in form.texts("include"):
            _require("include", each, INCLUDED)
        return cls(
            kind,
            "word" in granularities,
            "segment" in granularities,
            "attention" in form.texts("include"),
            "subtitles" in form.texts("include"),
            form.flag("stream"),
            _configured(service.recognizer, form),
        )


async def transcribe(service: Service, form: Form) -> Response:
    """Answer a request for a transcript."""
    wanted = Wanted.of(service, form)
    segments = service.segments(form.audio, wanted.recognizer)
    if wanted.stream:
        end = asyncio.get_running_loop().time() + service.limits.timeout
        first = await anext(segments)  # a recording that cannot be read has an error status
        events = _events(form, _until(end, first, segments))
        return StreamingResponse(events, media_type="text/event-stream")
    kept = [each if wanted.attention else without_attention(each) async for each in segments]
    transcript = wanted.recognizer.transcript(form.filename, kept)
    match wanted.format:
        case "json":
            return JSONResponse({"text": transcript.written, "usage": _usage(transcript.duration)})
        case "verbose_json":
            return await json_answer(lambda: _verbose_record(transcript, wanted))
        case "vtt":
            return PlainTextResponse(render(transcript, "vtt"), media_type="text/vtt")
    return PlainTextResponse(render(transcript, wanted.format))


def _verbose_record(transcript: Transcript, wanted: Wanted) -> dict[str, Any]:
    record = verbose(transcript, wanted.words, wanted.segments)
    if wanted.attention:
        record |= attention_record(transcript)
    if wanted.subtitles:
        record |= subtitles_record(transcript)
    return {**record, "usage": _usage(transcript.duration)}


async def _until(
    end: float, first: Segment, others: AsyncIterator[Segment]
) -> AsyncIterator[Segment]:
    """Yield the segments until a time of the event loop.

    Raises:
        APIError: they are not complete by then.
    """
    segment: Segment | None = first
    while segment is not None:
        yield segment
        try:
            async with asyncio.timeout_at(end):
                segment = await anext(others, None)
        except TimeoutError:
            raise APIError(504, "the request took too long", "timeout") from None


async def _events(form: Form, segments: AsyncIterator[Segment]) -> AsyncIterator[str]:
    """Yield server-sent events: the text of each segment as it comes, then all of it."""
    texts: list[str] = []
    end = 0.0
    try:
        async for segment in segments:
            end = segment.end
            if segment.written:
                texts.append(segment.written)
                delta = " " * (len(texts) > 1) + segment.written
                yield _event({"type": "transcript.text.delta", "delta": delta})
        done = {"type": "transcript.text.done", "text": " ".join(texts), "usage": _usage(end)}
        yield _event(done)
    except Exception as error:  # the status has been sent: clients find the error in the stream
        yield _event(as_api_error(form.named(error), "a stream").record())


def _event(record: dict[str, Any]) -> str:
    return f"data: {json.dumps(record)}\n\n"


def _usage(seconds: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(seconds)}


def _configured(recognizer: Recognizer, form: Form) -> Recognizer:
    """Return the recogniser with the options that the API does not have: `beam`, `digits`."""
    beam = form.text("beam")
    if beam and not beam.isdecimal():
        raise APIError(400, f"beam: got {beam!r}, wanted a whole number", "bad_value", "beam")
    if form.flag("digits"):
        recognizer = recognizer.with_digits()
    return recognizer.configured(beam=int(beam)) if beam else recognizer


def _require_temperature(value: str) -> None:
    """Check the temperature of the API, which has no effect here."""
    try:
        is_valid = 0 <= float(value) <= 1
    except ValueError:
        is_valid = False
    if not is_valid:
        raise APIError(
            400, f"temperature: got {value!r}, wanted 0 to 1", "bad_value", "temperature"
        )


def _require(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        wanted = ", ".join(filter(None, known))
        raise APIError(400, f"{name}: got {value!r}, wanted one of: {wanted}", "bad_value", name)
    return value
