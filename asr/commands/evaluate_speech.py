"""`asr evaluate` of a speech model: transcribe a manifest, measure errors and cost."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from asr.commands.options import Decoding
from asr.commands.output import replacing
from asr.commands.progress import Bar
from asr.corpora.manifest import Utterance, read_manifest, select
from asr.errors import complain
from asr.scoring.confidence import Bin, correct_words, expected_calibration_error, reliability
from asr.scoring.words import Scored, report, summarize, to_dict, worst

if TYPE_CHECKING:
    from asr.audio.read import Waveform
    from asr.inference.recognizer import Recognizer
    from asr.results import StopReason, Transcript
    from asr.scoring.health import Corpus, Health


@dataclass(frozen=True)
class Cost:
    """Cost of reading and transcribing: audio duration, wall time and CPU time, in seconds."""

    audio_seconds: float
    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.audio_seconds:.1f} s of audio in {self.seconds:.1f} s: "
            f"{self.audio_seconds / self.seconds:.2f} audio seconds a second, "
            f"{self.cpu_seconds / self.audio_seconds:.3f} CPU-seconds an audio second"
        )


class _Result(NamedTuple):
    """Result of an utterance, without the attention weights, which are large."""

    scored: Scored
    log_probability: float
    stop_reason: StopReason
    healths: list[Health]  # of its segments; empty unless requested
    confidences: list[float]  # of its words


class SpeechOptions(NamedTuple):
    """The beam size, and the options that only speech models have.

    ids: a file of ids to use. speed: factor by which the audio is played faster. attention: report
    attention health. audio_in: folder of the audio, see `asr.corpora.read_manifest`.
    """

    ids: Path | None
    decoding: Decoding
    speed: float
    attention: bool
    audio_in: Path | None

    def given(self) -> dict[str, object]:
        """Return the given options that only speech models have, by name."""
        every = {"ids": self.ids, "audio_in": self.audio_in, **self.decoding._asdict()}
        every["speed"] = None if self.speed == 1 else self.speed
        return {name: each for name, each in every.items() if name != "beam" and each is not None}


def run(
    manifest: Path,
    model: str | None,
    limit: int | None,
    options: SpeechOptions,
    as_json: bool,
    output: Path | None,
    device: str = "cpu",
    runtime: str = "auto",
) -> int:
    """Evaluate a model on a manifest; return 0, or 2 if recordings failed (they are not counted).

    limit: use only the first `limit` utterances. output: a .jsonl file of hypotheses.

    Raises:
        UserError: nothing can be evaluated.
    """
    ids, decoding, speed, attention, audio_in = options
    utterances = read_manifest(manifest, audio_in)
    if ids is not None:
        utterances = select(utterances, ids)
    utterances = utterances[:limit]
    with ExitStack() as stack:
        file = None
        if output is not None:
            part = stack.enter_context(replacing(output))
            file = stack.enter_context(part.open("w", encoding="utf-8", newline="\n"))
        from asr.inference.recognizer import Recognizer

        recognizer = decoding.applied(Recognizer.load(model, device, runtime)).plain()
        wall, processors = time.perf_counter(), time.process_time()
        results = list(_transcribe(recognizer, utterances, speed, attention))
        cost = Cost(
            sum(result.scored.duration or 0 for result in results),
            time.perf_counter() - wall,
            time.process_time() - processors,
        )
        described = _as_json if as_json else _as_text
        print(described(results, len(utterances) - len(results), speed, cost))
        if file is not None:
            _write_hypotheses(results, file)
    return 2 if len(results) < len(utterances) else 0


def _transcribe(
    recognizer: Recognizer, utterances: Sequence[Utterance], speed: float, attention: bool
) -> Iterator[_Result]:
    """Yield results; print failures on stderr, and a progress bar if stderr is a terminal."""
    from asr.inference.sources import Failure

    total = sum(utterance.duration for utterance in utterances) / speed
    sources = (_source(utterance.audio, speed) for utterance in utterances)
    with Bar(total) as bar:
        results = recognizer.transcribe_each(sources, on_progress=bar.advance)
        for utterance, result in zip(utterances, results, strict=True):
            if isinstance(result, Failure):
                bar.clear()
                complain(result.error)
            else:
                healths = _healths(result) if attention else []
                yield _Result(
                    _scored(utterance, result),
                    result.log_probability,
                    result.stop_reason,
                    healths,
                    [word.confidence or 0.0 for word in result.words],
                )


def _source(audio: Path, speed: float) -> Path | Waveform:
    """Return the recording, resampled for `speed`; its path if speed is 1 or it is unreadable."""
    if speed == 1:
        return audio
    from asr.audio import augment
    from asr.audio.read import Waveform, read
    from asr.errors import UserError

    try:
        return Waveform(augment.speed(read(audio).samples, speed))
    except UserError:
        return audio  # the recogniser reports the error


def _scored(utterance: Utterance, transcript: Transcript) -> Scored:
    return Scored(
        utterance.id,
        utterance.text,
        transcript.text,
        utterance.speaker,
        transcript.duration,
        utterance.gender,
        utterance.accent,
    )


def _healths(transcript: Transcript) -> list[Health]:
    """Return the attention health of each segment with text."""
    import torch

    from asr.scoring.health import measure

    return [
        measure(torch.from_numpy(segment.weights))
        for segment in transcript.segments
        if segment.weights.size
    ]


def _as_text(results: Sequence[_Result], failed: int, speed: float, cost: Cost) -> str:
    scored = [result.scored for result in results]
    parts = [report(summarize(scored)), worst(scored)]
    if (attention := _attention(results)) is not None:
        from asr.scoring import health

        parts.append(health.report(attention))
    reasons = _reasons(results).most_common()
    if confidence := _reliability(results):
        parts.append(_confidence_text(confidence))
    lines = ["stopped by " + ", ".join(f"{name}: {count}" for name, count in reasons), str(cost)]
    if speed != 1:
        lines.append(f"the audio was played {speed:g} times faster")
    if failed:
        lines.append(f"{failed} recordings could not be transcribed and are not counted")
    return "\n\n".join(part for part in [*parts, "\n".join(lines)] if part)


def _as_json(results: Sequence[_Result], failed: int, speed: float, cost: Cost) -> str:
    content: dict[str, Any] = {
        **to_dict(summarize(result.scored for result in results)),
        "confidence": _confidence(_reliability(results)),
        "stop_reasons": _reasons(results),
        "cost": asdict(cost),
        "speed": speed,
        "failed": failed,
    }
    if (attention := _attention(results)) is not None:
        from asr.scoring import health

        content["attention"] = health.to_dict(attention)
    return json.dumps(content, indent=1)


def _attention(results: Sequence[_Result]) -> Corpus | None:
    healths = [health for result in results for health in result.healths]
    if not healths:
        return None
    from asr.scoring.health import aggregate

    return aggregate(healths)


def _reliability(results: Sequence[_Result]) -> list[Bin]:
    """Group all words by confidence."""
    confidences = [each for result in results for each in result.confidences]
    texts = [(result.scored.reference, result.scored.hypothesis) for result in results]
    return reliability(confidences, [right for text in texts for right in correct_words(*text)])


def _confidence(grouped: Sequence[Bin]) -> dict[str, float]:
    """Return mean confidence, share of words that are right, and calibration error; fractions."""
    words = max(sum(each.words for each in grouped), 1)
    return {
        "mean": sum(each.words * each.confidence for each in grouped) / words,
        "correct": sum(each.words * each.correct for each in grouped) / words,
        "expected_calibration_error": expected_calibration_error(grouped),
    }


def _confidence_text(grouped: Sequence[Bin]) -> str:
    mean, correct, error = (f"{value:.1%}" for value in _confidence(grouped).values())
    return (
        f"word confidence {mean} on average, {correct} of the words right, "
        f"expected calibration error {error}"
    )


def _reasons(results: Sequence[_Result]) -> Counter[str]:
    return Counter(result.stop_reason for result in results)


def _write_hypotheses(results: Sequence[_Result], file: TextIO) -> None:
    """Write one JSON object a line, in the order of the manifest, as `asr score` reads it."""
    for scored, log_probability, stop_reason, *_ in results:
        record = {
            "id": scored.id,
            "text": scored.hypothesis,
            "reference": scored.reference,
            "speaker": scored.speaker,
            "duration": scored.duration,
            "gender": scored.gender,
            "accent": scored.accent,
            "log_probability": round(log_probability, 3),
            "stop_reason": stop_reason,
        }
        file.write(json.dumps(record) + "\n")
