"""Pseudo-labels: untranscribed speech with its automatic transcripts, as training data.

From the output of `asr transcribe -o FILE.jsonl`, the transcripts with the highest confidence are
kept, each with its segment of the audio.

Source: Kahn, Lee and Hannun 2020, "Self-Training for End-to-End Speech Recognition", section 2.3:
transcripts without end-of-sentence are discarded, the others are ranked by the mean
log-probability of a token.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import soundfile

from asr.audio.read import SAMPLE_RATE, read
from asr.corpora.manifest import Utterance, write_manifest
from asr.corpora.manifest_checks import CHARACTERS_PER_SECOND, LONGEST, SHORTEST
from asr.errors import UserError
from asr.results import StopReason
from asr.text.lines import read_entries


class Label(NamedTuple):
    """The transcript of a segment of a recording; times in seconds.

    log_probability: of the text with end-of-sentence, in nats. stop_reason: see
    `asr.results.Segment`.
    """

    start: float
    end: float
    text: str
    log_probability: float
    stop_reason: StopReason

    @property
    def confidence(self) -> float:
        """Mean log-probability of a token, the end included; −∞ if unusable for training."""
        seconds = self.end - self.start
        usable = (
            self.text
            and self.stop_reason == StopReason.EOS
            and SHORTEST <= seconds <= LONGEST
            and len(self.text) <= CHARACTERS_PER_SECOND * seconds
        )
        return self.log_probability / (len(self.text) + 1) if usable else -math.inf


def surest(labels: Sequence[Label], share: float) -> list[int]:
    """Return the indices of the labels with the highest confidence, in ascending order.

    share: of the usable labels, above 0 and at most 1; at least one is chosen.
    """
    usable = [index for index, label in enumerate(labels) if label.confidence > -math.inf]
    ranked = sorted(usable, key=lambda index: -labels[index].confidence)
    return sorted(ranked[: max(1, round(share * len(ranked)))])


def prepare(transcripts: str | Path, folder: str | Path, share: float = 0.5) -> Path:
    """Write the segments with the best labels as FLAC into a folder; return its manifest.

    transcripts: JSON lines of `asr.results.Transcript.record`; paths of recordings are relative to
        the current folder, as for `asr transcribe`. Recordings are cut into the decoded segments,
        mono at 16 kHz. share: see `surest`.

    Raises:
        UserError: the file or a recording cannot be read, no transcript is usable, or the share is
            out of range.
    """
    if not 0 < share <= 1:
        raise UserError(f"got a share of {share:g}, wanted above 0 and at most 1")
    transcripts, folder = Path(transcripts), Path(folder)
    pairs = [(path, label) for path, labels in _read(transcripts) for label in labels]
    kept = surest([label for _, label in pairs], share)
    if not kept:
        raise UserError(
            f"{transcripts}: none of its {len(pairs)} transcripts is usable for training"
        )
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / "manifest.jsonl"
    write_manifest(manifest, _cut(pairs, kept, folder))
    return manifest


def _cut(
    pairs: Sequence[tuple[Path, Label]], kept: Sequence[int], folder: Path
) -> Iterator[Utterance]:
    """Write the segment of each kept label; each recording is read once.

    A segment is named by its index among all segments, so that names do not depend on the share.
    """
    samples, last = None, None
    for index in kept:
        path, label = pairs[index]
        if samples is None or path != last:
            samples, last = read(path).samples, path
        audio = folder / f"{index:06d}.flac"
        stretch = samples[round(label.start * SAMPLE_RATE) : round(label.end * SAMPLE_RATE)]
        soundfile.write(audio, stretch, SAMPLE_RATE)
        yield Utterance(audio.stem, audio, label.text, len(stretch) / SAMPLE_RATE)


def _read(transcripts: Path) -> Iterator[tuple[Path, list[Label]]]:
    for number, line in read_entries(transcripts):
        try:
            yield _parse(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError(
                f"{transcripts}:{number}: wanted a transcript of a recording with its segments, as "
                "`asr transcribe RECORDINGS -o FILE.jsonl` writes it"
            ) from None


def _parse(record: Any) -> tuple[Path, list[Label]]:
    labels = [
        Label(
            start=float(segment["start"]),
            end=float(segment["end"]),
            text=str(segment["text"]),
            log_probability=float(segment["log_probability"]),
            stop_reason=StopReason(segment["stop_reason"]),
        )
        for segment in record["segments"]
    ]
    return Path(record["path"]), labels
