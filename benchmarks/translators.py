"""Compare our translator with JoeyNMT's recurrent one: same sentences, sizes and machine.

    python benchmarks/translators.py CONFIG --data FOLDER --peer joey/bin/python

JoeyNMT 2.3.0 pins a version of protobuf that tensorboard no longer supports. It needs a separate
environment, here joey/, with only the packages that its recurrent model imports:

    python3 -m venv joey
    joey/bin/pip install --no-deps joeynmt==2.3.0 subword-nmt
    joey/bin/pip install -c constraints.txt torch numpy sentencepiece sacrebleu tensorboard \\
        matplotlib pyyaml tqdm packaging importlib_metadata

CONFIG is a translation recipe, e.g. recipes/multi30k/en-de.toml, which sets subwords, batches and
sizes. JoeyNMT gets the same ids in the same batches. Each row is measured in a separate process.

Training: full steps (forward, backward, clipping, Adam; ours also updates the running average),
after some warm-up steps; batches are padded beforehand. JoeyNMT's step is that of `TrainManager`,
in float32.

Decoding: batches of similar length, in float32, with the models after these steps. They are hardly
trained, so the output length is fixed to that of the longest source of the batch: both compute the
same number of steps. Savings from dropping finished sentences are not measured.
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
    """An amount with its CPU time (sum of all threads) and wall time, in seconds."""

    amount: int
    cpu_seconds: float
    seconds: float


class Found(NamedTuple):
    """Measurements of one process: trained target tokens (with <eos>), decoded sentences."""

    parameters: int
    training: Speed
    greedy: Speed
    beam: Speed


def measure(job: Job) -> Found:
    """Train and decode with one translator; called in a separate process."""
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
    translator.decode(questions[0][:2], beam, 2)  # warm-up, not measured
    start = _now()
    for batch in questions:
        length = max(map(len, batch)) + 1
        lengths = translator.decode(batch, beam, length)
        assert lengths == [length] * len(batch), "an output ended early: the work differs"
    return _speed(sum(map(len, questions)), start)


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def _speed(amount: int, start: tuple[float, float]) -> Speed:
    end = _now()
    return Speed(amount, end[0] - start[0], end[1] - start[1])


def row(name: str, threads: int, found: Found) -> str:
    """Return a row of the table."""
    rates = []
    for speed in (found.training, found.greedy, found.beam):
        for seconds in (speed.cpu_seconds, speed.seconds):
            rate = speed.amount / seconds
            rates.append(f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}")
    return f"| {' | '.join([name, str(threads), f'{found.parameters:,}', *rates])} |"


def run_apart(job: Job, python: str) -> Found:
    """Run one translator in a separate process, and return its measurements."""
    with tempfile.TemporaryDirectory() as folder:
        job_file, found = Path(folder) / "job.json", Path(folder) / "found.json"
        job_file.write_text(json.dumps(job), "utf-8")
        command = [python, __file__, "--job", str(job_file), str(found)]
        environment = os.environ | dict.fromkeys(THREADS, str(job.threads))
        subprocess.run(command, env=environment, check=True)
        parameters, *speeds = json.loads(found.read_text("utf-8"))
        return Found(parameters, *(Speed(*each) for each in speeds))


def has_peer(python: str) -> bool:
    """Whether the interpreter exists and has JoeyNMT installed."""
    command = [python, "-c", "import joeynmt.model, joeynmt.search"]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def plan(given: argparse.Namespace) -> Job:
    """Read the data; choose the batches to train on and the sentences to decode.

    Raises UserError if the config or the data cannot be used, or there are too few batches.
    """
    from asr.corpora.pairs import read_sentences
    from asr.errors import UserError
    from asr.training.config import TranslationConfig, load_config
    from asr.training.tasks.translation_data import TranslationData

    config = load_config(given.config, AS_IS)
    if not isinstance(config, TranslationConfig):
        raise UserError(f"{given.config}: not a translation recipe")
    data = TranslationData(config, given.data, given.config.parent)
    batches = data.plan(0)[: given.warm_up + given.steps]
    if len(batches) < given.warm_up + given.steps:
        raise UserError(f"the data have only {len(batches)} batches; lower --steps and --warm-up")
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
    parser = argparse.ArgumentParser(description="Compare our translator with JoeyNMT's.")
    parser.add_argument("config", type=Path, help="a translation recipe")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--peer", default=sys.executable, metavar="PYTHON", help="JoeyNMT's")
    parser.add_argument("--test", default="raw/test_2016_flickr.en.gz", help="sentences to decode")
    parser.add_argument("--sentences", type=int, default=500, metavar="N", help="how many of them")
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="to time")
    parser.add_argument("--warm-up", type=int, default=5, metavar="N", help="unmeasured steps")
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
