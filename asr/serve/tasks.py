"""Alignment, the reading tutor and translation: one request at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from starlette.responses import JSONResponse, Response

from asr.alignment.links import attention_record
from asr.audio.read import SAMPLE_RATE, Waveform, read_blocks
from asr.inference.recognizer import LONGEST_ALIGNED, LONGEST_READ
from asr.results import weights_record
from asr.serve.answers import json_answer
from asr.serve.errors import APIError
from asr.serve.forms import Form
from asr.serve.service import Service
from asr.translation import Translation

MOST_TEXTS: Final = 100
MOST_CHARACTERS: Final = 20_000  # of all texts of a translation
MOST_WEIGHTS: Final = 250_000  # of all texts; an answer of about 1.7 MB


async def align(service: Service, form: Form) -> Response:
    """Answer when each word of a text was said, or of the transcript if no text is given."""
    service.require_speech_model(form.text("model"))
    recognizer = service.recognizer.plain()
    text = form.text("text")
    if not text.strip():
        segments = [each async for each in service.segments(form.audio, recognizer)]
        transcript = recognizer.transcript(form.filename, segments)
    else:
        audio = form.audio
        found = await service.run(lambda: recognizer.align(_waveform(audio, LONGEST_ALIGNED), text))
        transcript = replace(found, path=form.filename)
    return await json_answer(transcript.record_with_weights)


async def read(service: Service, form: Form) -> Response:
    """Answer how a page (`text`) was read aloud."""
    service.require_speech_model(form.text("model"))
    page = form.text("text")
    if not page.strip():
        raise APIError(400, "no page: wanted the field `text`", "no_text", "text")
    audio = form.audio
    reading = await service.run(
        lambda: service.recognizer.read(_waveform(audio, LONGEST_READ), page)
    )
    return JSONResponse(replace(reading, path=form.filename).record())


async def translate(service: Service, form: Form) -> Response:
    """Answer with a translation of `text`, or with one for each text of a list."""
    texts = form.texts("text")
    if not texts:
        wanted = "the field `text` of a form, or of JSON with Content-Type: application/json"
        raise APIError(400, f"no text: wanted {wanted}", "no_text", "text")
    if len(texts) > MOST_TEXTS or sum(map(len, texts)) > MOST_CHARACTERS:
        raise APIError(
            413,
            f"at most {MOST_TEXTS} texts of {MOST_CHARACTERS:,} characters in all are translated",
            "text_too_long",
            "text",
        )
    translator = await service.translator(form.text("to", "fr"))
    whole = form.flag("whole")
    found = await service.run(lambda: translator.translate(texts, whole=whole))
    return await json_answer(lambda: {"translations": translation_records(found)})


def _waveform(path: Path, longest: float) -> Waveform:
    """Read a recording, but not more than may be used.

    Raises:
        UserError: it cannot be read.
        APIError: it is too long.
    """
    blocks, seconds = [], 0.0
    for block in read_blocks(path):
        blocks.append(block)
        seconds += len(block) / SAMPLE_RATE
        if seconds > longest:
            raise APIError(
                413, f"the recording is longer than {longest:g} s", "audio_too_long", "file"
            )
    return Waveform(np.concatenate(blocks))


def translation_records(translations: Sequence[Translation]) -> list[dict[str, Any]]:
    """Return translations with the attention between their words.

    `weights` has a row for each target word and a column for each source word, end-of-sentence
    last in both; None in all of them if the matrices have more than `MOST_WEIGHTS` entries.
    `confidence` is the geometric mean of the probabilities of the tokens.
    """
    records = [_translation_record(each) for each in translations]
    entries = sum(len(each["source_words"]) * len(each["target_words"]) for each in records)
    for each, translation in zip(records, translations, strict=True):
        is_small = entries <= MOST_WEIGHTS
        each["weights"] = weights_record(translation.words.weights) if is_small else None
    return records


def _translation_record(translation: Translation) -> dict[str, Any]:
    mean = translation.log_probability / max(1, len(translation.target_tokens))
    return {
        "source": translation.source,
        "text": translation.text,
        "confidence": round(math.exp(min(0.0, mean)), 4),
        "stop_reason": translation.stop_reason,
        **attention_record(translation.words_of_sentences),
    }
