"""Synthesise speech as a training corpus.

    python recipes/librispeech/synthesize.py DATA/synthetic/hibari --voice hibari --hours 16 \
        DATA/text/books/books-train.txt.xz DATA/text/ljspeech/ljspeech-norm.txt.gz

Voices: `hibari` (one neural voice; `pip install hibari-tts`, Apache-2.0) and the statistical
voices of flite (`slt`, `rms`, `awb`; Debian's `flite`, a BSD-like licence). For variety, each
utterance has a random pace and a random factor that scales pitch and formants together, as between
small and large speakers. An interrupted command can be repeated: existing utterances are kept, and
the manifest is written at the end.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray
from tqdm import tqdm

from asr.audio.read import SAMPLE_RATE
from asr.corpora.manifest import Utterance, write_manifest
from asr.corpora.text import read_texts
from asr.errors import UserError, exit_status

PACES = (0.85, 1.3)  # slowest and fastest, relative to the voice
SIZES = (0.82, 1.18)  # lowest and highest pitch and formants, relative to the voice
WORDS = (4, 40)  # range of the random length of an utterance, to which lines are joined
PEAK = 0.5
FASTEST = 20.0  # characters per second; CTC at 40 ms can emit 25, fewer with doubled characters
WORDS_PER_HOUR = 11_000  # of these voices, at the mean pace

Samples = NDArray[np.float32]
Voice = Callable[[str, float], tuple[Samples, int]]  # text, pace → samples and sample rate


def passages(lines: Sequence[str], words: int, seed: int) -> Iterator[str]:
    """Yield passages of consecutive lines from random places of a text, `words` words in total."""
    random = np.random.default_rng(seed)
    for start in random.permutation(len(lines)).tolist():
        wanted = int(random.integers(*WORDS))
        passage: list[str] = []
        while start < len(lines) and len(passage) < wanted:
            passage += lines[start].split()
            start += 1
        if len(passage) <= WORDS[1]:
            yield " ".join(passage)
            words -= len(passage)
        if words <= 0:
            return


def load_voice(name: str) -> Voice:
    """Return a voice.

    Raises:
        UserError: the synthesiser is not installed.
    """
    if name == "hibari":
        try:
            from hibari import Hibari  # type: ignore[import-untyped]  # it ships no types
        except ImportError as error:
            raise UserError("the voice hibari needs `pip install hibari-tts`") from error
        speaker = Hibari()
        return lambda text, pace: (speaker(text, pace), 24_000)
    return partial(_flite, name)


def _flite(voice: str, text: str, pace: float) -> tuple[Samples, int]:
    stretch = f"duration_stretch={1 / pace:.3f}"
    command = ["flite", "-voice", voice, "--setf", stretch, "-t", text, "-o", "/dev/stdout"]
    try:
        wav = subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError as error:
        raise UserError(f"the voice {voice} needs flite; e.g. apt install flite") from error
    samples, rate = soundfile.read(io.BytesIO(wav), dtype="float32")
    return samples, rate


def speak(voice: Voice, text: str, random: np.random.Generator) -> Samples:
    """Return a passage at 16 kHz (S,), with random pace and speaker size."""
    pace, size = random.uniform(*PACES), random.uniform(*SIZES)
    samples, rate = voice(text, pace / size)  # resampling below changes the pace by `size`
    samples = soxr.resample(samples, rate * size, SAMPLE_RATE, "MQ")
    loudest = np.float32(max(1e-3, np.abs(samples).max()))
    scaled: Samples = (samples * (PEAK / loudest)).astype(np.float32)
    return scaled


class _Maker:
    """Makes the recordings of one process, which loads the voice once."""

    voice: Voice

    @classmethod
    def begin(cls, name: str) -> None:
        cls.voice = load_voice(name)

    @classmethod
    def make(cls, job: tuple[str, str, Path, int]) -> Utterance:
        identifier, text, folder, seed = job
        path = folder / identifier[-3:] / f"{identifier}.flac"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".part")
            samples = speak(cls.voice, text, np.random.default_rng(seed))
            soundfile.write(unfinished, samples, SAMPLE_RATE, format="FLAC", subtype="PCM_16")
            unfinished.rename(path)
        return Utterance(identifier, path, text, soundfile.info(path).duration, identifier[:-8])


def main() -> None:
    """Read the arguments and make the corpus."""
    parser = argparse.ArgumentParser(description="Synthesise speech as a training corpus.")
    parser.add_argument("folder", type=Path, help="folder of the corpus")
    parser.add_argument("text", type=Path, nargs="+", help="text files, one text per line")
    parser.add_argument("--voice", default="hibari", choices=["hibari", "slt", "rms", "awb"])
    parser.add_argument("--hours", type=float, default=1.0, help="hours of speech (default 1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    load_voice(arguments.voice)("one", 1.0)  # fails early if it is not installed
    lines = [line for path in arguments.text for line in read_texts(path)]
    texts = passages(lines, round(arguments.hours * WORDS_PER_HOUR), arguments.seed)
    jobs = [
        (f"{arguments.voice}-{arguments.seed}-{number:07d}", text, arguments.folder, number)
        for number, text in enumerate(texts)
    ]
    with multiprocessing.Pool(arguments.processes, _Maker.begin, (arguments.voice,)) as pool:
        made = list(tqdm(pool.imap(_Maker.make, jobs, chunksize=16), total=len(jobs)))
    kept = [each for each in made if len(each.text) <= FASTEST * each.duration]
    if not kept:
        raise UserError(f"all utterances exceed {FASTEST:g} characters per second: no corpus")
    write_manifest(arguments.folder / "manifest.jsonl", kept)
    hours = sum(each.duration for each in kept) / 3600
    print(f"{len(kept)} utterances, {hours:.2f} h; {len(made) - len(kept)} left out as too fast")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
