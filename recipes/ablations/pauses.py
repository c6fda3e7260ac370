"""Add pauses before and after read sentences, to test a silence mask.

    python recipes/ablations/pauses.py MANIFEST FOLDER [--dev-ids LIST] [--seed 0]

makes FOLDER/train.jsonl, and FOLDER/dev.jsonl with the utterances of the list, with their audio.
Each utterance gets 0.5 to 2 s of noise before it and after it, 50 dB below the speech; the noise is
also added to the speech.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE, read
from asr.corpora.manifest import Utterance, read_manifest, select, write_manifest
from asr.errors import exit_status

SHORTEST, LONGEST = 0.5, 2.0  # seconds, range of a pause
NOISE_DB = -50.0  # power relative to the speech; below -35 counts as silence
LIST = Path(__file__).with_name("speech-dev.txt")


def with_pauses(samples: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
    """Return samples (S,) at `SAMPLE_RATE` with a pause before and after."""
    pauses = (random.uniform(SHORTEST, LONGEST, 2) * SAMPLE_RATE).astype(int)
    sound = np.pad(samples, (int(pauses[0]), int(pauses[1])))
    loudness = samples.std() * 10 ** (NOISE_DB / 20)
    return sound + (loudness * random.standard_normal(len(sound))).astype(np.float32)


def write(utterances: Sequence[Utterance], manifest: Path, random: np.random.Generator) -> None:
    """Write a manifest, and its audio in a folder of the same name."""
    folder = manifest.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for utterance in utterances:
        samples = with_pauses(read(utterance.audio).samples, random)
        audio = folder / f"{utterance.id}.flac"
        soundfile.write(audio, samples, SAMPLE_RATE)
        made.append(replace(utterance, audio=audio, duration=len(samples) / SAMPLE_RATE))
    write_manifest(manifest, made)


def main() -> None:
    """Read the arguments and write both parts."""
    parser = argparse.ArgumentParser(description="Add pauses before and after read sentences.")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dev-ids", type=Path, default=LIST, help="list of held-out utterances")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    utterances = read_manifest(given.manifest)
    held_out = select(utterances, given.dev_ids)
    names = {each.id for each in held_out}
    random = np.random.default_rng(given.seed)
    rest = [each for each in utterances if each.id not in names]
    write(rest, given.folder / "train.jsonl", random)
    write(held_out, given.folder / "dev.jsonl", random)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
