"""The translators that `translators.py` measures: ours and the recurrent one of JoeyNMT.

Differences: our decoder has two cells with attention between them, and a readout of state, token
and context; JoeyNMT has one cell with input feeding, and a readout of state and context. JoeyNMT
has four more tokens, and dropout before the readout instead of on the annotations; our attention
has a bias. Both share one embedding matrix between both languages and the output layer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

PEER_SPECIALS = 4  # unknown, padding, start and end: the first ids, in this order
PADDING, START, END = 1, 2, 3
NEVER = 10**6  # more repeats than any text has
AS_IS = ("data.subword_dropout=0", "training.device=cpu", "training.start_from=")

Ids = list[int]


class Job(NamedTuple):
    """The work of one process, passed as JSON.

    name: key of `TRANSLATORS`. training: batches of [source, target] ids without <eos>; the first
    `warm_up` batches are not measured. questions: batches of source ids. beam: beam size of the
    second decoding; the first is greedy. peer: see `peer_settings`.
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


class Translator(NamedTuple):
    """The functions to measure.

    batches: those of the job, padded. step: trains on a batch → its number of target tokens.
    decode: source ids, beam size and number of output tokens → tokens of each output.
    """

    parameters: int
    batches: list[Any]
    step: Callable[[Any], int]
    decode: Callable[[list[Ids], int, int], list[int]]


def _ours(job: Job, precision: str) -> Translator:
    """Return our translator, trained as in `asr.training.loop` at a constant learning rate."""
    import numpy as np
    import torch

    from asr.corpora.collate import pad_tokens
    from asr.runtime.torch_runtime import TorchDecoder
    from asr.search import BeamSettings, RepeatGuard, beam_search, greedy
    from asr.text.vocabulary import EOS
    from asr.training.config import load_config
    from asr.training.optimizer import make_optimizer
    from asr.training.state import RunningAverage
    from asr.training.tasks.translation import TranslationTask
    from asr.training.tasks.translation_data import TextBatch

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
        model.decoder.output.bias[EOS] = -1e9  # no further training step follows
        padded = map(torch.from_numpy, pad_tokens([[*each, EOS] for each in sentences]))
        memory = model.decoder.prepare(model.encoder(*padded))
        decoder, limits = TorchDecoder(model.decoder, memory), np.full(len(sentences), length)
        if beam == 1:
            return [len(each.tokens) for each in greedy(decoder, limits, guard)]
        search = BeamSettings(size=beam, length_exponent=1.0, end_threshold=None, guard=guard)
        found = beam_search(decoder, limits, search)
        return [len(best.tokens) for best, *_ in found]

    def padded(batch: list[tuple[Ids, Ids]]) -> TextBatch:
        source = pad_tokens([[*source, EOS] for source, _ in batch])
        target = pad_tokens([target for _, target in batch])
        return TextBatch(*map(torch.from_numpy, (*source, *target)))

    batches = [padded(batch) for batch in job.training]
    parameters = sum(each.numel() for each in model.parameters())
    return Translator(parameters, batches, step, decode)


def peer_settings(config: Any) -> dict[str, Any]:
    """Return JoeyNMT settings with the sizes, dropout and optimiser of a `TranslationConfig`."""
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
    """Return the settings that encoder and decoder share."""
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
    """Return JoeyNMT's translator, trained as in its `TrainManager`, decoding as in `predict`."""
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
        loss.item(), correct.item()  # `TrainManager` logs both at every step
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
    """Convert our ids to JoeyNMT's, which begin with its special tokens."""
    return [PEER_SPECIALS + each for each in ids]


def _padded(rows: list[Ids]) -> list[Ids]:
    longest = max(map(len, rows))
    return [row + [PADDING] * (longest - len(row)) for row in rows]


PEER = "JoeyNMT, float32"
TRANSLATORS: dict[str, Callable[[Job], Translator]] = {
    "asr, bf16": lambda job: _ours(job, "bf16"),
    "asr, float32": lambda job: _ours(job, "fp32"),
    PEER: _joeynmt,
}
