"""Compare the cost of a decoder training step with SpeechBrain's decoder of the same weights.

    python benchmarks/training_step.py [--sizes small mid] [--repeats N] [--json FILE]

The step: embedding → attention decoder (GRU) → 31 characters → cross-entropy → backward, for 8
utterances of 200 characters and 400 annotations, in fp32 on one thread. Before anything is timed,
both decoders get the same weights, and their values (without location features also their
gradients) are compared. CPU times are medians of ratios of runs in turn, so that other work on the
machine weighs on both; memory is the growth of a process's peak in its first step.

SpeechBrain imports torchaudio, and uses nothing of it here; where it is missing, an empty module
takes its place. Without SpeechBrain only our figures are printed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from asr.attention import AdditiveAttention, Annotations, Window
from asr.errors import exit_status
from asr.models.fused.loop import Gates, unroll

BATCH, STEPS, LENGTH, VOCABULARY, EMBEDDING = 8, 200, 400, 31, 128
CHANNELS, WIDTH = 10, 15  # of the location features
WINDOW = Window(20, 20)
ROUNDING = 1e-9  # of values and gradients, relative, in float64


class Sizes(NamedTuple):
    """annotation: E. state: H. attention: A."""

    annotation: int
    state: int
    attention: int


SIZES = {"small": Sizes(512, 320, 128), "mid": Sizes(640, 512, 512)}


class Case(NamedTuple):
    """An attention to measure; SpeechBrain has no window, so its attention is without."""

    location: bool
    window: Window | None
    peer: str


CASES = {
    "content": Case(False, None, "content"),
    "location": Case(True, None, "location"),
    "window": Case(False, WINDOW, "location"),
    "location, window": Case(True, WINDOW, "location"),
}


class Batch(NamedTuple):
    """values: (B, T, E), with gradient as from an encoder. tokens, targets: (B, U)."""

    values: Tensor
    tokens: Tensor
    targets: Tensor


class Figures(NamedTuple):
    """Cost of a step. cpu: seconds. memory: MB. ratio: the peer's CPU time over ours.

    None where there is no peer.
    """

    size: str
    case: str
    cpu: float
    memory: float
    peer_cpu: float | None
    peer_memory: float | None
    ratio: float | None


class Peer(nn.Module):
    """SpeechBrain's decoder with an embedding before and an output layer after it."""

    def __init__(self, sizes: Sizes, kind: str) -> None:
        super().__init__()
        from speechbrain.nnet.RNN import AttentionalRNNDecoder

        self.embedding = nn.Embedding(VOCABULARY, EMBEDDING)
        self.decoder = AttentionalRNNDecoder(
            "gru", kind, sizes.state, sizes.attention, 1, sizes.annotation, EMBEDDING,
            channels=CHANNELS, kernel_size=WIDTH // 2,
        )  # fmt: skip
        self.output = nn.Linear(sizes.state, VOCABULARY)

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (B, U, V)."""
        lengths = torch.ones(len(batch.values))
        readout, _ = self.decoder(self.embedding(batch.tokens), batch.values, lengths)
        return self.output(readout)


class Ours(nn.Module):
    """The same function by the fused loop.

    The cell of step i reads the context of step i − 1, which the state of step i − 1 attended to,
    and none in step 1. The loop thus begins with the state after step 1, as s_0.
    """

    def __init__(self, sizes: Sizes, case: Case) -> None:
        super().__init__()
        size = sizes.state
        self.embedding = nn.Embedding(VOCABULARY, EMBEDDING)
        self.token = nn.Linear(EMBEDDING, 3 * size)
        self.context = nn.Linear(sizes.annotation, 3 * size)
        self.state = nn.Linear(size, 3 * size)
        features = CHANNELS if case.location else 0
        self.attention = AdditiveAttention(
            size, sizes.annotation, sizes.attention, features, WIDTH, window=case.window
        )
        self.readout = nn.Linear(sizes.annotation + size, size)
        self.output = nn.Linear(size, VOCABULARY)

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (B, U, V)."""
        gates = self.token(self.embedding(batch.tokens))  # (B, U, 3H)
        start = self._first_state(gates[:, 0])
        # The last state is not used; the gates of any token do for it.
        later = torch.cat([gates[:, 1:], gates[:, :1]], dim=1) + self.context.bias
        mask = torch.ones(batch.values.shape[:2], dtype=torch.bool)
        memory = self.attention.prepare(Annotations(batch.values, mask))
        loop = unroll(self.attention, memory, start, later, Gates(self.context, self.state))
        hidden = torch.cat([start[:, None], loop.hidden[:, :-1]], dim=1)
        return self.output(self.readout(torch.cat([loop.context, hidden], dim=2)))

    def _first_state(self, gates: Tensor) -> Tensor:
        """Return the state (B, H) after the first token, from a state and a context of 0."""
        new, old = gates.chunk(3, dim=1), self.state.bias.chunk(3)
        reset, update = torch.sigmoid(new[0] + old[0]), torch.sigmoid(new[1] + old[1])
        return (1 - update) * torch.tanh(new[2] + reset * old[2])

    @torch.no_grad()
    def copy(self, peer: Any) -> None:
        """Take the weights of a `Peer`; its projection of the context becomes part of ours."""
        cell, theirs = peer.decoder.rnn.rnn_cells[0], peer.decoder.attn
        project = theirs.mlp_out
        self.embedding.load_state_dict(peer.embedding.state_dict())
        self.output.load_state_dict(peer.output.state_dict())
        self.token.weight.copy_(cell.weight_ih[:, :EMBEDDING])
        self.token.bias.copy_(cell.bias_ih)
        from_context = cell.weight_ih[:, EMBEDDING:]
        self.context.weight.copy_(from_context @ project.weight)
        self.context.bias.copy_(from_context @ project.bias)
        self.state.weight.copy_(cell.weight_hh)
        self.state.bias.copy_(cell.bias_hh)
        width = len(project.bias)
        rows = peer.decoder.proj.weight
        self.readout.weight.copy_(torch.cat([rows[:, :width] @ project.weight, rows[:, width:]], 1))
        self.readout.bias.copy_(peer.decoder.proj.bias + rows[:, :width] @ project.bias)
        self._copy_attention(theirs)

    def _copy_attention(self, theirs: Any) -> None:
        """Its location features have one channel, the last weights, and a bias."""
        ours = self.attention
        ours.query.weight.copy_(theirs.mlp_dec.weight)
        ours.energy.copy_(theirs.mlp_attn.weight[0])
        ours.key.weight.copy_(theirs.mlp_enc.weight)
        ours.key.bias.copy_(theirs.mlp_enc.bias + theirs.mlp_dec.bias)
        if ours.location is not None:
            spread, project = ours.location
            spread.weight.zero_()
            spread.weight[:, :1].copy_(theirs.conv_loc.weight)
            project.weight[:, :, 0].copy_(theirs.mlp_loc.weight)
            ours.key.bias.add_(theirs.mlp_loc.bias)


def make_batch(sizes: Sizes, dtype: torch.dtype = torch.float32, share: int = 1) -> Batch:
    """Return random annotations and characters; share: divides the number of both."""
    torch.manual_seed(1)
    length, steps = LENGTH // share, STEPS // share
    values = torch.randn(BATCH, length, sizes.annotation, dtype=dtype, requires_grad=True)
    tokens, targets = torch.randint(VOCABULARY, (2, BATCH, steps))
    return Batch(values, tokens, targets)


def train_step(model: nn.Module, batch: Batch) -> None:
    """Compute the gradients of all weights and of the annotations."""
    batch.values.grad = None
    model.zero_grad(set_to_none=True)
    logits = model(batch)
    functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten()).backward()


def check_equality(sizes: Sizes, case: Case) -> float:
    """Return the largest relative difference of both decoders in float64.

    Raises:
        AssertionError: it is more than rounding.
    """
    peer, ours = Peer(sizes, case.peer).double(), Ours(sizes, case).double()
    ours.copy(peer)
    batch = make_batch(sizes, torch.float64, share=8)
    if case.location:
        _start_from_no_weights(peer.decoder.attn)
    results = []
    for model in (ours, peer):
        logits = model(batch)
        # Its location features have no gradient, so the gradients differ there.
        extra = [] if case.location else _gradients(logits, model, batch)
        results.append([logits.detach(), *extra])
    worst = max(
        float((left - right).abs().max() / right.abs().max())
        for left, right in zip(*results, strict=True)
    )
    assert worst < ROUNDING, f"the two decoders differ by {worst:.1e}"
    return worst


def _gradients(logits: Tensor, model: Any, batch: Batch) -> Sequence[Tensor]:
    """Return the gradients of the annotations and of the weights that both have."""
    loss = functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
    if isinstance(model, Ours):
        attention = model.attention
        weights = [attention.key.weight, attention.query.weight, model.state.weight]
    else:
        attention, cell = model.decoder.attn, model.decoder.rnn.rnn_cells[0]
        weights = [attention.mlp_enc.weight, attention.mlp_dec.weight, cell.weight_hh]
    return torch.autograd.grad(loss, [batch.values, model.embedding.weight, *weights])


def _start_from_no_weights(attention: Any) -> None:
    """Let SpeechBrain's weights before the first step be 0, as ours; by itself they are 1/T."""
    convolve = attention.conv_loc.forward

    def forward(previous: Tensor) -> Tensor:
        is_first = previous.std(-1, keepdim=True) == 0
        return convolve(previous.masked_fill(is_first, 0).to(attention.conv_loc.weight.dtype))

    attention.conv_loc.forward = forward


def interleaved_cpu(steps: Sequence[Callable[[], None]], repeats: int) -> list[list[float]]:
    """Return the CPU seconds of all steps in turn, `repeats` times, after once unmeasured."""
    return [[_cpu(step) for step in steps] for _ in range(repeats + 1)][1:]


def _cpu(step: Callable[[], None]) -> float:
    begin = time.process_time()
    step()
    return time.process_time() - begin


def peak_growth(make: Callable[[], nn.Module], sizes: Sizes) -> float:
    """Return the growth in MB of a new process's peak memory in one step."""
    # Forked, so that nothing is imported again; no step may have run in this process before.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_growth_of, (make, sizes))


def _growth_of(make: Callable[[], nn.Module], sizes: Sizes) -> float:
    model = make()
    # What the first step of a process loads is not memory of the step.
    train_step(model, make_batch(sizes, share=40))
    batch = make_batch(sizes)
    before = _peak()
    train_step(model, batch)
    return (_peak() - before) / 1024


def _peak() -> int:
    """Return the peak memory of this process in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def find_peer() -> bool:
    """Return whether SpeechBrain is installed, ready to be imported; say so if it is not."""
    _allow_missing_torchaudio()
    if find_spec("speechbrain") is not None:
        return True
    print("SpeechBrain is not installed: only asr is measured.", file=sys.stderr)
    return False


def _allow_missing_torchaudio() -> None:
    """Let SpeechBrain be imported without torchaudio, which its decoder does not use."""
    if find_spec("speechbrain") is not None and find_spec("torchaudio") is None:
        empty = ModuleType("torchaudio")
        empty.__spec__ = ModuleSpec("torchaudio", None)
        empty.__version__ = "2.11.0"  # type: ignore[attr-defined]
        sys.modules["torchaudio"] = empty


def makers(size: str, has_peer: bool) -> dict[str, Callable[[], nn.Module]]:
    """Return what builds each decoder: ours by the name of its case, the peer by its attention."""
    sizes = SIZES[size]
    ours = {name: partial(Ours, sizes, case) for name, case in CASES.items()}
    kinds = {case.peer for case in CASES.values()} if has_peer else set()
    return ours | {f"peer {kind}": partial(Peer, sizes, kind) for kind in sorted(kinds)}


def measure_memory(size: str, has_peer: bool) -> dict[str, float]:
    """Return the growth in MB of the peak memory of all decoders in a step."""
    return {name: peak_growth(make, SIZES[size]) for name, make in makers(size, has_peer).items()}


def measure(size: str, memory: dict[str, float], repeats: int, has_peer: bool) -> list[Figures]:
    """Measure all cases of a size; memory: of `measure_memory`."""
    make, sizes = makers(size, has_peer), SIZES[size]
    if has_peer:
        for name in ("content", "location"):
            worst = check_equality(sizes, CASES[name])
            print(f"{size}, {name}: equal within {worst:.0e} in float64", file=sys.stderr)
    batch = make_batch(sizes)
    steps = [partial(train_step, one(), batch) for one in make.values()]
    rounds = [dict(zip(make, each, strict=True)) for each in interleaved_cpu(steps, repeats)]
    rows = []
    for name, case in CASES.items():
        peer = f"peer {case.peer}" if has_peer else None
        rows.append(_figures(size, name, peer, rounds, memory))
    return rows


def _figures(
    size: str, name: str, peer: str | None, rounds: list[dict[str, float]], memory: dict[str, float]
) -> Figures:
    cpu = statistics.median(each[name] for each in rounds)
    if peer is None:
        return Figures(size, name, cpu, memory[name], None, None, None)
    return Figures(
        size, name, cpu, memory[name],
        peer_cpu=statistics.median(each[peer] for each in rounds),
        peer_memory=memory[peer],
        ratio=statistics.median(each[peer] / each[name] for each in rounds),
    )  # fmt: skip


def table(rows: Sequence[Figures]) -> str:
    """Return a Markdown table."""
    lines = [
        "| size | attention | ours, CPU s (MB) | SpeechBrain, CPU s (MB) | CPU time | memory |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        ours = f"{row.cpu:.2f} ({row.memory:.0f})"
        theirs, ratio, memory = "not measured", "", ""
        if row.ratio is not None and row.peer_memory is not None:
            theirs = f"{row.peer_cpu:.2f} ({row.peer_memory:.0f})"
            ratio, memory = f"{row.ratio:.1f}×", f"{row.peer_memory / row.memory:.0f}×"
        lines.append(f"| {row.size} | {row.case} | {ours} | {theirs} | {ratio} | {memory} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    has_peer = find_peer()
    memory = {size: measure_memory(size, has_peer) for size in given.sizes}
    rows = [
        row for size in given.sizes for row in measure(size, memory[size], given.repeats, has_peer)
    ]
    print(table(rows))
    if given.json is not None:
        given.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
