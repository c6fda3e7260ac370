"""Ours and JoeyNMT's recurrent translator: the same sentences, sizes and machine, in one run.

    python benchmarks/translators.py CONFIG --data FOLDER --peer joey/bin/python

JoeyNMT 2.3.0 pins a protobuf that tensorboard has left behind, so it gets an environment of its
own, here joey/, in which only what its recurrent model imports is installed:

    python3 -m venv joey
    joey/bin/pip install --no-deps joeynmt==2.3.0 subword-nmt
    joey/bin/pip install -c constraints.txt torch numpy sentencepiece sacrebleu tensorboard \\
        matplotlib pyyaml tqdm packaging importlib_metadata

CONFIG is a translation recipe, e.g. recipes/multi30k/en-de.toml: subwords, batches and sizes are
its own, and JoeyNMT gets the same ids in the same batches. Each row has a process of its own.

Training: whole steps (forward, backward, clipping, Adam; ours also keeps its running average),
after some that are not counted; batches are padded beforehand. JoeyNMT's step is that of its
`TrainManager`, in float32.

Decoding: in batches of like length, in float32, models after the steps above. They have learnt
next to nothing, so that neither is let end a text before or after the number of tokens that the
longest source of its batch has: both do the same work, and what either would save by
dropping finished sentences is not in the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from contestants import AS_IS, PEER, TRANSLATORS, Job, Translator, peer_settings

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
HEADER = (
    "translator",
    "threads",
    "parameters",
    "target tokens trained per CPU-s",
    "per s",
    "sentences, greedy, per CPU-s",
    "per s",
    "sentences, beam, per CPU-s",
    "per s",
)


class Speed(NamedTuple):
    """An amount, and what it took: CPU-seconds of all threads together, and by the clock."""

    amount: int
    cpu_seconds: float
    seconds: float


class Found(NamedTuple):
    """What one process measured: target tokens trained on (ends counted), sentences decoded."""

    parameters: int
    training: Speed
    greedy: Speed
    beam: Speed


def measure(job: Job) -> Found:
    """Train and decode with one translator; called in a process of its own."""
    import torch

    torch.set_num_threads(job.threads)
    translator = TRANSLATORS[job.name](job)
    for batch in translator.batches[: job.warm_up]:
        translator.step(batch)
    start = _now()
    tokens = sum(map(translator.step, translator.batches[job.warm_up :]))
    training = _speed(tokens, start)
    greedy, beam = (_decode(translator, job.questions, beam) for beam in (1, job.beam))
    return Found(translator.parameters, training, greedy, beam)


def _decode(translator: Translator, questions: list[list[list[int]]], beam: int) -> Speed:
    translator.decode(questions[0][:2], beam, 2)  # what is made at first use is not counted
    start = _now()
    for batch in questions:
        length = max(map(len, batch)) + 1
        lengths = translator.decode(batch, beam, length)
        assert lengths == [length] * len(batch), "a text ended early: the work is not the same"
    return _speed(sum(map(len, questions)), start)


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def _speed(amount: int, start: tuple[float, float]) -> Speed:
    end = _now()
    return Speed(amount, end[0] - start[0], end[1] - start[1])


def row(name: str, threads: int, found: Found) -> str:
    """Return a line of the table."""
    rates = []
    for speed in (found.training, found.greedy, found.beam):
        for seconds in (speed.cpu_seconds, speed.seconds):
            rate = speed.amount / seconds
            rates.append(f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}")
    return f"| {' | '.join([name, str(threads), f'{found.parameters:,}', *rates])} |"


def run_apart(job: Job, python: str) -> Found:
    """Start a process for one translator, and wait for what it found."""
    with tempfile.TemporaryDirectory() as folder:
        asked, found = Path(folder) / "job.json", Path(folder) / "found.json"
        asked.write_text(json.dumps(job), "utf-8")
        command = [python, __file__, "--job", str(asked), str(found)]
        environment = os.environ | dict.fromkeys(THREADS, str(job.threads))
        subprocess.run(command, env=environment, check=True)
        parameters, *speeds = json.loads(found.read_text("utf-8"))
        return Found(parameters, *(Speed(*each) for each in speeds))


def has_peer(python: str) -> bool:
    """Whether an interpreter is there, and JoeyNMT in it."""
    command = [python, "-c", "import joeynmt.model, joeynmt.search"]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def plan(given: argparse.Namespace) -> Job:
    """Read the data, and take the batches that all train on and the sentences that all decode.

    Raises UserError when the config or the data cannot be used, or are too few.
    """
    from asr.corpora.pairs import read_sentences
    from asr.errors import UserError
    from asr.training.config import TranslationConfig, load_config
    from asr.training.tasks.translation_data import TranslationData

    config = load_config(given.config, AS_IS)
    if not isinstance(config, TranslationConfig):
        raise UserError(f"{given.config}: not a recipe of translation")
    data = TranslationData(config, given.data, given.config.parent)
    batches = data.plan(0)[: given.warm_up + given.steps]
    if len(batches) < given.warm_up + given.steps:
        raise UserError(f"{len(batches)} batches are all there are; lower --steps and --warm-up")
    training = [
        [[data.examples[at].source[:-1], data.examples[at].target] for at in batch]
        for batch in batches
    ]
    sentences = read_sentences(given.data / given.test)[: given.sentences]
    ids = sorted((data.source.encode(each) for each in sentences), key=len)
    questions = [ids[at : at + given.batch] for at in range(0, len(ids), given.batch)]
    return Job(
        name="",
        threads=1,
        config=str(given.config),
        data=str(given.data),
        vocabulary_size=max(len(data.source), len(data.target)),
        training=training,
        warm_up=given.warm_up,
        questions=questions,
        beam=given.beam,
        peer=peer_settings(config),
    )


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Ours and JoeyNMT's translator, side by side.")
    parser.add_argument("config", type=Path, help="a translation recipe")
    parser.add_argument("--data", type=Path, required=True, help="what its paths start from")
    parser.add_argument("--peer", default=sys.executable, metavar="PYTHON", help="JoeyNMT's")
    parser.add_argument("--test", default="raw/test_2016_flickr.en.gz", help="sentences to decode")
    parser.add_argument("--sentences", type=int, default=500, metavar="N", help="the first of them")
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="to time")
    parser.add_argument("--warm-up", type=int, default=5, metavar="N", help="steps before those")
    parser.add_argument("--batch", type=int, default=100, metavar="N", help="sentences decoded")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", choices=TRANSLATORS, metavar="NAME")
    return parser.parse_args(words)


def main() -> None:
    """Read the arguments, run each translator and print the table."""
    if sys.argv[1:2] == ["--job"]:
        job = Job(*json.loads(Path(sys.argv[2]).read_text("utf-8")))
        Path(sys.argv[3]).write_text(json.dumps(measure(job)), "utf-8")
        return
    given = arguments(sys.argv[1:])

    from asr.errors import UserError

    try:
        job = plan(given)
    except UserError as error:
        raise SystemExit(str(error)) from error
    names = list(given.only or TRANSLATORS)
    if PEER in names and not has_peer(given.peer):
        print(f"{PEER}: not installed in {given.peer}, left out", file=sys.stderr)
        names.remove(PEER)
    print(f"{given.steps} steps, {sum(map(len, job.questions))} sentences, beam {given.beam}\n")
    print(f"| {' | '.join(HEADER)} |\n| --- |{' ---: |' * (len(HEADER) - 1)}", flush=True)
    for threads in given.threads:
        for name in names:
            python = given.peer if name == PEER else sys.executable
            found = run_apart(job._replace(name=name, threads=threads), python)
            print(row(name, threads, found), flush=True)


if __name__ == "__main__":
    main()
