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

Where they differ: our decoder has two cells, attention between them, and a readout of state,
token and context; JoeyNMT has one cell that is fed the last readout, and a readout of state and
context. JoeyNMT has four tokens more and no dropout on annotations, but the like before its
readout; our attention has a bias. Both have one table for both languages and the output layer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PEER_SPECIALS = 4  # unknown, padding, start and end, in this order, before all other ids
PADDING, START, END = 1, 2, 3
NEVER = 10**6  # repeats that no text has
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

Ids = list[int]


class Job(NamedTuple):
    """What one process does; travels as JSON.

    name: in `TRANSLATORS`. training: batches of [source, target] ids without ends, the first
    `warm_up` not counted. questions: batches of source ids. beam: of the second decoding, the
    first being greedy. peer: see `peer_settings`.
    """

    name: str
    threads: int
    config: str
    data: str
    vocabulary_size: int
    training: list[list[list[Ids]]]
    warm_up: int
    questions: list[list[Ids]]
    beam: int
    peer: dict[str, Any]


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


class Translator(NamedTuple):
    """What is measured.

    batches: those of the job, padded. step: trains on a batch, → its target tokens.
    decode: source ids, beam and the number of tokens to write → how many each text has.
    """

    parameters: int
    batches: list[Any]
    step: Callable[[Any], int]
    decode: Callable[[list[Ids], int, int], list[int]]


def _ours(job: Job, precision: str) -> Translator:
    """As `asr.training.loop` does it, at one rate."""
    import torch

    from asr.search import BeamSettings, RepeatGuard, beam_search, greedy
    from asr.text.vocabulary import EOS
    from asr.training.config import load_config
    from asr.training.loop import make_optimizer
    from asr.training.sequences import pad
    from asr.training.state import RunningAverage
    from asr.training.translation import TranslationTask
    from asr.training.translation_data import TextBatch

    path = Path(job.config)
    config = load_config(path, [*AS_IS, f"training.precision={precision}"])
    task = TranslationTask(config, Path(job.data), path.parent)
    settings, model = config.training, task.model
    optimizer = make_optimizer(model, settings)
    average = RunningAverage(model, settings.average)
    guard = RepeatGuard(standing_repeats=NEVER, moving_repeats=NEVER, sitting=NEVER)

    def step(batch: TextBatch) -> int:
        model.train()
        losses = task.loss(batch, 0)
        losses.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        if torch.isfinite(norm):
            optimizer.step()
            average.update()
        optimizer.zero_grad(set_to_none=True)
        return int(losses.amount)

    @torch.no_grad()
    def decode(sentences: list[Ids], beam: int, length: int) -> list[int]:
        model.eval()
        model.decoder.output.bias[EOS] = -1e9  # training is over
        memory = model.decoder.prepare(model.encoder.annotate([[*each, EOS] for each in sentences]))
        limits = torch.full((len(sentences),), length)
        if beam == 1:
            return [len(each.tokens) for each in greedy(model.decoder, memory, limits, guard)]
        search = BeamSettings(size=beam, length_exponent=1.0, end_threshold=None, guard=guard)
        found = beam_search(model.decoder, memory, limits, search)
        return [len(best.tokens) for best, *_ in found]

    batches = [
        TextBatch(*pad([[*source, EOS] for source, _ in batch]), *pad([each[1] for each in batch]))
        for batch in job.training
    ]
    parameters = sum(each.numel() for each in model.parameters())
    return Translator(parameters, batches, step, decode)


def peer_settings(config: Any) -> dict[str, Any]:
    """Return JoeyNMT's settings of a `TranslationConfig`'s sizes, dropouts and step."""
    model = config.model
    return {
        "model": {
            "tied_embeddings": model.joint_embedding,
            "tied_softmax": model.decoder.tied,
            "encoder": _half(model.encoder),
            "decoder": {
                **_half(model.decoder),
                "hidden_dropout": _given(model.decoder.readout_dropout, model.decoder.dropout),
                "attention": "bahdanau",
                "init_hidden": "bridge",
                "input_feeding": True,
            },
        },
        "label_smoothing": config.loss.label_smoothing,
        "optimizer": {"optimizer": "adam", "learning_rate": config.training.rate},
        "clip": {"clip_grad_norm": config.training.clip, "clip_grad_val": None},
        "seed": config.seed,
    }


def _half(settings: Any) -> dict[str, Any]:
    """What encoder and decoder share."""
    dropout = _given(settings.embedding_dropout, settings.dropout)
    return {
        "type": "recurrent",
        "rnn_type": settings.cell,
        "embeddings": {"embedding_dim": settings.embedding_size, "dropout": dropout},
        "hidden_size": settings.state_size,
        "num_layers": settings.layers,
        "dropout": settings.dropout,
    }


def _given(rate: float | None, otherwise: float) -> float:
    return otherwise if rate is None else rate


def _joeynmt(job: Job) -> Translator:
    """As its `TrainManager` and `predict` do it, on the ids of the job."""
    from types import SimpleNamespace

    import torch
    from joeynmt.batch import Batch
    from joeynmt.builders import build_gradient_clipper, build_optimizer
    from joeynmt.model import build_model
    from joeynmt.search import search
    from joeynmt.vocabulary import Vocabulary

    names = {"unk": 0, "pad": PADDING, "bos": START, "eos": END}
    special = SimpleNamespace(sep_token=None, lang_tags=[])
    for name, index in names.items():
        setattr(special, f"{name}_token", f"<{name}>")
        setattr(special, f"{name}_id", index)
    vocabulary = Vocabulary([str(index) for index in range(job.vocabulary_size)], special)
    torch.manual_seed(job.peer["seed"])
    model = build_model(job.peer["model"], vocabulary, vocabulary)
    model.loss_function = ("crossentropy", job.peer["label_smoothing"])
    optimizer = build_optimizer(job.peer["optimizer"], model.parameters())
    clip = build_gradient_clipper(job.peer["clip"])

    def batch_of(sources: list[Ids], targets: list[Ids] | None) -> Batch:
        source = _padded([[*_shifted(each), END] for each in sources])
        target = None
        if targets is not None:
            target = torch.tensor(_padded([[START, *_shifted(each), END] for each in targets]))
        return Batch(
            src=torch.tensor(source),
            src_length=torch.tensor([len(each) + 1 for each in sources]),
            src_prompt_mask=None,
            trg=target,
            trg_prompt_mask=None,
            indices=torch.arange(len(sources)),
            device=torch.device("cpu"),
            pad_index=PADDING,
            eos_index=END,
            is_train=targets is not None,
        )

    def step(batch: Batch) -> int:
        model.train()
        batch.sort_by_src_length()
        loss, _, _, correct = model(return_type="loss", **vars(batch))
        loss = batch.normalize(loss, "tokens")
        loss.backward()
        loss.item(), correct.item()  # it logs both at every step
        clip(parameters=model.parameters())
        optimizer.step()
        optimizer.zero_grad()
        return int(batch.ntokens)

    def decode(sentences: list[Ids], beam: int, length: int) -> list[int]:
        model.eval()
        batch = batch_of(sentences, None)
        batch.sort_by_src_length()
        bounds = {"max_output_length": length, "min_output_length": length}
        found, _, _ = search(model=model, batch=batch, beam_size=beam, beam_alpha=1.0, **bounds)
        return [int((row != PADDING).sum()) for row in found]

    batches = [
        batch_of([each[0] for each in one], [each[1] for each in one]) for one in job.training
    ]
    return Translator(sum(each.numel() for each in model.parameters()), batches, step, decode)


def _shifted(ids: Ids) -> Ids:
    """Our ids as the peer's, whose special tokens come first."""
    return [PEER_SPECIALS + each for each in ids]


def _padded(rows: list[Ids]) -> list[Ids]:
    longest = max(map(len, rows))
    return [row + [PADDING] * (longest - len(row)) for row in rows]


AS_IS = ("data.subword_dropout=0", "training.device=cpu", "training.start_from=")
PEER = "JoeyNMT, float32"
TRANSLATORS: dict[str, Callable[[Job], Translator]] = {
    "asr, bf16": lambda job: _ours(job, "bf16"),
    "asr, float32": lambda job: _ours(job, "fp32"),
    PEER: _joeynmt,
}


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


def _decode(translator: Translator, questions: list[list[Ids]], beam: int) -> Speed:
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
    from asr.training.translation_data import TranslationData

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
