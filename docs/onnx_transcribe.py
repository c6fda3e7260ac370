"""Transcribe a recording with the graphs of `asr export`, by NumPy and onnxruntime alone.

    pip install numpy onnxruntime soundfile
    asr export english english-onnx
    python docs/onnx_transcribe.py english-onnx talk.flac

The search is greedy: at each step the most probable character, until <eos>. The recording is mono,
of 16 kHz; the model is not one with a frozen public encoder, which has no graph of its features.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime
import soundfile

EOS = 1  # the second symbol of a vocabulary ends a text; the first is the blank of CTC
CHARACTERS_PER_SECOND = 22  # more than speech has: a limit for texts that do not end


def transcribe(folder: Path, samples: np.ndarray) -> str:
    """Return the text of samples (S,), float32 at 16 kHz."""
    features, encoder, step = (
        onnxruntime.InferenceSession(folder / f"{name}.onnx", providers=["CPUExecutionProvider"])
        for name in ("features", "encoder", "step")
    )
    symbols = json.loads((folder / "vocabulary.json").read_text("utf-8"))["symbols"]

    lengths = np.array([len(samples)])
    found, frames = features.run(None, {"samples": samples[None], "lengths": lengths})
    outputs = encoder.run(None, {"features": found, "lengths": frames})
    encoded = dict(zip((each.name for each in encoder.get_outputs()), outputs, strict=True))

    memory = {name: encoded[name] for name in ("annotations", "mask", "keys")}
    weights = np.zeros((1, 1, encoded["annotations"].shape[1]), np.float32)
    state = {"hidden": encoded["hidden"], "weights": weights, "cumulative": weights}
    tokens = [EOS]
    for _ in range(len(samples) * CHARACTERS_PER_SECOND // 16_000):
        log_probs, *following = step.run(
            None, {"tokens": np.array([tokens[-1:]]), **state, **memory}
        )
        tokens.append(int(log_probs[0, 0].argmax()))
        if tokens[-1] == EOS:
            break
        state = dict(zip(state, following, strict=True))
    return "".join(symbols[token] for token in tokens if token != EOS)


def main() -> None:
    """Read the arguments, and print the transcript."""
    parser = argparse.ArgumentParser(description="Transcribe a recording with ONNX graphs.")
    parser.add_argument("folder", type=Path, help="made by asr export")
    parser.add_argument("recording", type=Path, help="mono, 16 kHz")
    arguments = parser.parse_args()
    samples, rate = soundfile.read(arguments.recording, dtype="float32")
    if rate != 16_000 or samples.ndim != 1:
        raise SystemExit(f"{arguments.recording}: wanted one channel at 16 kHz")
    print(transcribe(arguments.folder, samples))


if __name__ == "__main__":
    main()
