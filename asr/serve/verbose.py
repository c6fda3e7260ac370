"""The `verbose_json` answer of the OpenAI API, with confidence and attention added."""

from __future__ import annotations

import zlib
from typing import Any

from asr.render.transcripts import render
from asr.results import Segment, StopReason, Transcript, weights_record, word_record


def verbose(transcript: Transcript, words: bool, segments: bool) -> dict[str, Any]:
    """Return the answer. words, segments: whether it lists them.

    Fields that the API has and this model does not (`seek`, `tokens`, `temperature`) are 0 or
    empty. `no_speech_prob` is 1 for silence, else the probability that a segment is not English
    speech, 0 if that is not known.
    """
    found: dict[str, Any] = {
        "task": "transcribe",
        "language": "english",
        "duration": round(transcript.duration, 3),
        "text": transcript.written,
    }
    if words:
        found["words"] = [word_record(word) for word in transcript.written_words]
    if segments:
        found["segments"] = [
            _segment(number, segment) for number, segment in enumerate(transcript.segments)
        ]
    return found


def attention_record(transcript: Transcript) -> dict[str, Any]:
    """Return the attention weights of each segment, a row for each of its characters."""
    return {
        "seconds_per_annotation": transcript.seconds_per_annotation,
        "attention": [segment_attention(segment) for segment in transcript.segments],
    }


def segment_attention(segment: Segment) -> dict[str, Any]:
    """Return the characters of a segment and the weights of each, over its annotations."""
    return {
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "characters": [each.text for each in segment.characters],
        "weights": weights_record(segment.weights),
    }


def subtitles_record(transcript: Transcript) -> dict[str, str]:
    """Return the transcript as subtitles in both formats."""
    return {kind: render(transcript, kind) for kind in ("srt", "vtt")}


def _segment(number: int, segment: Segment) -> dict[str, Any]:
    text = segment.written
    letters = sum(len(word.text) for word in segment.words) + max(0, len(segment.words) - 1)
    is_silent = segment.stop_reason is StopReason.SILENCE
    unlikely = 0.0 if segment.english is None else 1 - segment.english
    return {
        "id": number,
        "seek": 0,
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": round(segment.log_probability / (letters + 1), 4),
        "compression_ratio": _compression_ratio(text),
        "no_speech_prob": 1.0 if is_silent else round(unlikely, 4),
        "low_confidence": segment.low_confidence,
    }


def _compression_ratio(text: str) -> float:
    """Return the length of a text over that of the same compressed by zlib."""
    content = text.encode()
    return round(len(content) / len(zlib.compress(content)), 3) if content else 0.0
