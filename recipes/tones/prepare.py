"""Write the tones corpus: letters a to h as tones of different pitch, for tests without downloads.

    python recipes/tones/prepare.py FOLDER [--utterances 200] [--seed 0]

makes FOLDER/train.jsonl and FOLDER/dev.jsonl with their audio. A letter lasts 80 to 160 ms, a
space is a pause of 100 to 200 ms, and faint noise is added throughout.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import soundfile

from asr.corpora.manifest import Utterance, write_manifest
from asr.errors import exit_status

RATE = 16_000
LETTERS = "abcdefgh"
LOWEST, STEP = 300.0, 1.3  # Hz of "a", and the frequency ratio of successive letters
NOISE = 0.003


def say(text: str, random: np.random.Generator) -> np.ndarray:
    """Return the samples (S,) of a text of letters a to h and spaces."""
    pieces = [np.zeros(RATE // 20)]
    for character in text:
        shortest, longest = (0.1, 0.2) if character == " " else (0.08, 0.16)
        samples = np.arange(int(random.uniform(shortest, longest) * RATE))
        frequency = LOWEST * STEP ** LETTERS.find(character)
        loudness = 0.0 if character == " " else random.uniform(0.1, 0.4)
        tone = np.sin(2 * np.pi * frequency * samples / RATE) * np.hanning(len(samples)) ** 0.3
        pieces.append(loudness * tone)
    pieces.append(np.zeros(RATE // 20))
    sound = np.concatenate(pieces)
    return sound + NOISE * random.standard_normal(len(sound))


def invent(random: np.random.Generator) -> str:
    """Return one to four random words of one to four letters, without repeated letters."""
    words = []
    for _ in range(random.integers(1, 5)):
        word = ""
        for _ in range(random.integers(1, 5)):
            word += random.choice([letter for letter in LETTERS if letter != word[-1:]])
        words.append(word)
    return " ".join(words)


def prepare(folder: Path, utterances: int, seed: int) -> None:
    """Write both manifests and their audio."""
    random = np.random.default_rng(seed)
    for part, count in (("train", utterances), ("dev", max(8, utterances // 10))):
        made = []
        (folder / part).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            text = invent(random)
            samples = say(text, random)
            audio = folder / part / f"{number:04d}.flac"
            soundfile.write(audio, samples, RATE)
            made.append(Utterance(f"{part}-{number:04d}", audio, text, len(samples) / RATE))
        write_manifest(folder / f"{part}.jsonl", made)


def main() -> None:
    """Read the arguments and prepare."""
    parser = argparse.ArgumentParser(description="Write the tones corpus.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--utterances", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    prepare(arguments.folder, arguments.utterances, arguments.seed)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
