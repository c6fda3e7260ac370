"""Compare detectors of speech by the errors of a recording that is cut in the pauses they find.

    pip install onnxruntime webrtcvad-wheels silero-vad
    python benchmarks/detectors.py MANIFEST --ids FILE --noise MANIFEST [--minutes N]
        [--seeds N ...] [--model MODEL] [--beam N]

The recordings are those of `long_recordings.py`. All detectors have the same rules for cuts
(`asr.inference.cutting`) and the same search. "Alone" are the utterances one by one. CPU-seconds
are those of the detector. A detector that is not installed is reported and left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
from long_recordings import Recording, alone, compose, in_gaps, word_error_rate
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE
from asr.corpora.manifest import read_manifest, read_noise, select
from asr.errors import exit_status
from asr.inference.cutting import (
    Detector,
    by_energy,
    detector,
    in_frames,
    pieces,
    symbol_detector,
)
from asr.inference.decoding import decode_many
from asr.inference.recognizer import Recognizer
from asr.render.tables import text_table
from asr.results import Span

WEBRTC_SECONDS = 0.03  # of a frame; 0.01 and 0.02 are possible too
SILERO_SAMPLES = 512  # of a frame at 16 kHz
SILERO_CONTEXT = 64  # samples before a frame that are read with it
SILERO_SPEECH = 0.5  # least probability of speech, the package's own threshold

Samples = NDArray[np.float32]
Mask = NDArray[np.bool_]


def whole_frames(samples: Samples, size: int) -> Samples:
    """Return samples as frames (F, size), padded with zeros."""
    padded = np.zeros(-(-len(samples) // size) * size, np.float32)
    padded[: len(samples)] = samples
    return padded.reshape(-1, size)


def webrtc(vad: Any) -> Detector:
    """Return a detector by WebRTC's; vad: `webrtcvad.Vad`."""

    def detect(samples: Samples) -> Mask:
        frames = whole_frames(samples, round(WEBRTC_SECONDS * SAMPLE_RATE))
        coded = (np.clip(frames, -1, 1) * 32767).astype(np.int16)
        mask = np.array([vad.is_speech(frame.tobytes(), SAMPLE_RATE) for frame in coded], bool)
        return in_frames(mask, WEBRTC_SECONDS, len(samples))

    return detect


def silero(session: Any) -> Detector:
    """Return a detector by Silero's network; session: of onnxruntime."""

    def detect(samples: Samples) -> Mask:
        state = np.zeros((2, 1, 128), np.float32)
        before = np.zeros(SILERO_CONTEXT, np.float32)
        found = []
        for frame in whole_frames(samples, SILERO_SAMPLES):
            given = np.concatenate([before, frame])[None]
            inputs = {"input": given, "state": state, "sr": np.array(SAMPLE_RATE)}
            probability, state = session.run(None, inputs)
            found.append(float(probability[0, 0]) >= SILERO_SPEECH)
            before = frame[-SILERO_CONTEXT:]
        return in_frames(np.array(found, bool), SILERO_SAMPLES / SAMPLE_RATE, len(samples))

    return detect


def detectors(recognizer: Recognizer) -> dict[str, Detector]:
    """Return the detectors that are installed, by name."""
    loaded = recognizer.loaded
    found = {"asr transcribe": detector(loaded), "CTC": symbol_detector(loaded)}
    found["level"] = by_energy
    if _has("webrtcvad"):
        import webrtcvad

        found |= {f"WebRTC, mode {mode}": webrtc(webrtcvad.Vad(mode)) for mode in (1, 3)}
    if _has("silero_vad") and _has("onnxruntime"):
        import onnxruntime

        spec = importlib.util.find_spec("silero_vad")
        assert spec is not None and spec.submodule_search_locations
        file = Path(spec.submodule_search_locations[0]) / "data" / "silero_vad.onnx"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        found["Silero"] = silero(onnxruntime.InferenceSession(str(file), options))
    return found


def _has(package: str) -> bool:
    if importlib.util.find_spec(package) is not None:
        return True
    print(f"{package}: not installed, left out", file=sys.stderr)
    return False


def timed(detect: Detector, spent: list[float]) -> Detector:
    """Return a detector that adds its CPU-seconds to `spent`."""

    def detect_and_count(samples: Samples) -> Mask:
        start = time.process_time()
        mask = detect(samples)
        spent.append(time.process_time() - start)
        return mask

    return detect_and_count


def measure(
    recognizer: Recognizer, recordings: Sequence[Recording], detect: Detector
) -> tuple[float, int, int, float]:
    """Return WER %, pieces, words in gaps, and CPU-seconds of the detector per second of audio."""
    texts, found, spent = [], [], []
    count = words_in_gaps = 0
    longest = recognizer.decoding.segment_seconds
    for recording in recordings:
        symbols = symbol_detector(recognizer.loaded)
        some = [*pieces([recording.samples], timed(detect, spent), longest, symbols)]
        segments = decode_many(recognizer.loaded, some, recognizer.decoding)
        words = [
            Span(word.text, word.start, word.end) for segment in segments for word in segment.words
        ]
        texts.append(" ".join(each.text for each in recording.utterances))
        found.append(" ".join(word.text for word in words))
        count += len(some)
        words_in_gaps += len(in_gaps(words, recording.gaps))
    seconds = sum(len(each.samples) for each in recordings) / SAMPLE_RATE
    return 100 * float(jiwer.wer(texts, found)), count, words_in_gaps, sum(spent) / seconds


def utterances_alone(recognizer: Recognizer, recordings: Sequence[Recording]) -> float:
    """Return the WER in percent of the utterances one by one."""
    texts, words = [], []
    for recording in recordings:
        edges = [
            slice(round(each.start * SAMPLE_RATE), round(each.end * SAMPLE_RATE))
            for each in recording.utterances
        ]
        texts += [each.text for each in recording.utterances]
        words += alone(recognizer, [recording.samples[edge] for edge in edges])
    return word_error_rate(texts, words)


def main() -> None:
    """Read the arguments, make the recordings, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, metavar="FILE", help="use only these utterances")
    parser.add_argument("--noise", type=Path, metavar="MANIFEST", required=True)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--model", default="english")
    parser.add_argument("--beam", type=int)
    given = parser.parse_args()
    utterances = read_manifest(given.manifest)
    if given.ids is not None:
        utterances = select(utterances, given.ids)
    noise = read_noise(given.noise)
    recognizer = Recognizer.load(given.model)
    if given.beam is not None:
        recognizer = recognizer.configured(beam=given.beam)
    recordings = [compose(utterances, noise, given.minutes, seed) for seed in given.seeds]
    rows: list[tuple[str | int | None, ...]] = []
    for name, detect in detectors(recognizer).items():
        wer, count, words, cost = measure(recognizer, recordings, detect)
        rows.append((name, f"{wer:.2f}", count, words, f"{cost:.4f}"))
    rows.append(("alone", f"{utterances_alone(recognizer, recordings):.2f}", None, None, None))
    print(text_table(("cut by", "WER %", "pieces", "words in gaps", "CPU-s per s"), rows))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
