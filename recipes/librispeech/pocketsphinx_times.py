"""Write the word times of PocketSphinx's forced aligner for the texts of a manifest.

    pip install pocketsphinx
    python recipes/librispeech/pocketsphinx_times.py MANIFEST TIMES

writes JSON lines as in `asr.corpora.word_times`, times to 10 ms. Utterances with a word that is not
in PocketSphinx's dictionary, or that it cannot align, are left out and counted. An hour of speech
takes less than a minute on one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from pocketsphinx import Decoder
from tqdm import tqdm

from asr.audio.read import SAMPLE_RATE, read
from asr.checksums import write_whole
from asr.corpora.manifest import read_manifest
from asr.corpora.word_times import Timed
from asr.errors import exit_status


def aligned(decoder: Decoder, audio: Path, text: str) -> list[Timed]:
    """Return the times of all words of a text, or [] if it cannot be aligned."""
    words = text.split()
    if not words or any(decoder.lookup_word(word) is None for word in words):
        return []
    samples = (read(audio).samples * 32767).astype(np.int16)
    decoder.set_align_text(text)
    decoder.start_utt()
    decoder.process_raw(samples.tobytes(), full_utt=True)
    decoder.end_utt()
    frame = 1 / decoder.config["frate"]
    found = [
        Timed(
            each.word.split("(")[0],  # without the number of the pronunciation
            round(each.start_frame * frame, 3),
            round((each.end_frame + 1) * frame, 3),
        )
        for each in decoder.seg() or ()
        if each.word[0] not in "<["  # pauses and noises
    ]
    return found if [each.word for each in found] == words else []


def main() -> None:
    """Read the arguments, align and write the file."""
    parser = argparse.ArgumentParser(description="Align the texts of a manifest by PocketSphinx.")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("times", type=Path, help="JSON lines to write")
    given = parser.parse_args()
    decoder = Decoder(samprate=SAMPLE_RATE, loglevel="FATAL")
    utterances = read_manifest(given.manifest)
    lines = [
        json.dumps({"id": each.id, "words": words}) + "\n"
        for each in tqdm(utterances, unit="utt")
        if (words := aligned(decoder, each.audio, each.text))
    ]
    write_whole(given.times, "".join(lines).encode())
    print(f"{len(lines)} of {len(utterances)} utterances aligned")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
