"""The gradients of a step: of whole batches, or in pieces if a batch does not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from asr.errors import UserError
from asr.models.fused.graphs import GRAPHS
from asr.training import distributed
from asr.training.contract import Losses, Task
from asr.training.journal import log_line
from asr.training.state import Progress


class Entry(NamedTuple):
    """A batch of the plan; see `asr.training.contract.Task.make`."""

    epoch: int
    position: int
    indices: list[int]


class Made(NamedTuple):
    """This process's share of a batch; counts: see `asr.training.distributed.Share`."""

    batch: Any
    counts: bool
    entry: Entry


class Gradients:
    """Adds the gradients of batches to the parameters of a task's model."""

    def __init__(self, task: Task, progress: Progress) -> None:
        """progress: its amount grows by that of each batch."""
        self._task = task
        self._progress = progress

    def add(self, batches: Sequence[Made], step: int, seed: int) -> dict[str, Tensor]:
        """Add the gradients of the mean loss of the batches; return the parts of that loss.

        The parameters have no gradients before. If memory does not suffice, all is computed again:
        first without the CUDA graphs kept so far, then with each batch in 2, 4, … pieces, which
        gives the same but for dropout. seed: of dropout.

        Raises:
            UserError: memory does not suffice for single examples, or for a share of a batch in
                several processes.
        """
        pieces, amount = 1, self._progress.amount
        while True:
            torch.manual_seed(seed)
            try:
                return self._add(batches, step, pieces)
            except (RuntimeError, MemoryError) as error:
                if not _is_of_memory(error):
                    raise
                reason = str(error).splitlines()[0]
            # Here nothing refers to the tensors of the failed attempt any more.
            if distributed.world_size() == 1 and GRAPHS.release():
                log_line(f"step {step}: no memory beside the CUDA graphs; fewer are kept now")
            else:
                pieces *= 2
                self._require_pieces(batches, step, pieces, reason)
            self._progress.amount = amount
            self._task.model.zero_grad(set_to_none=True)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _require_pieces(self, batches: Sequence[Made], step: int, pieces: int, reason: str) -> None:
        largest = max(len(each.entry.indices) for each in batches)
        if distributed.world_size() > 1 or pieces >= 2 * largest:
            raise UserError(
                f"step {step}: a batch of {largest} does not fit into memory ({reason}); lower "
                "batches.size, or data.longest"
            )
        log_line(f"step {step}: a batch does not fit into memory; again in {pieces} pieces")

    def _add(self, batches: Sequence[Made], step: int, pieces: int) -> dict[str, Tensor]:
        parts: dict[str, Tensor] = {}
        for made in batches:
            shares = [self._share(made, step)] if pieces == 1 else self._pieces(made, step, pieces)
            for losses in shares:
                (losses.total / len(batches)).backward()
                for name, value in losses.parts.items():
                    parts[name] = parts.get(name, 0) + value.detach() / len(batches)
        return parts

    def _share(self, made: Made, step: int) -> Losses:
        """Return the summands of this process; those of all add up to the loss of the batch."""
        losses = self._task.loss(made.batch, step)
        sizes = [*(float(term.size) for term in losses.terms), losses.amount]
        own = [made.counts * each for each in sizes]
        *whole, amount = distributed.sums(own)
        self._progress.amount += amount
        return _weighted(losses, own, whole)

    def _pieces(self, made: Made, step: int, pieces: int) -> Iterator[Losses]:
        """Yield the summands of pieces of a batch, which add up to its loss."""
        count = min(pieces, len(made.entry.indices))
        parts = [slice(first, None, count) for first in range(count)]
        with torch.no_grad():  # how many tokens and frames each term of the loss is a mean of
            sizes = [
                [float(term.size) for term in self._loss(made, part, step).terms] for part in parts
            ]
        whole = [sum(column) for column in zip(*sizes, strict=True)]
        for part, own in zip(parts, sizes, strict=True):
            losses = self._loss(made, part, step)
            self._progress.amount += losses.amount
            yield _weighted(losses, own, whole)

    def _loss(self, made: Made, part: slice, step: int) -> Losses:
        return self._task.loss(self._task.make(*made.entry, part), step)


def _weighted(losses: Losses, own: Sequence[float], whole: Sequence[float]) -> Losses:
    """Weight each term by its share of what all summands count."""
    return losses.weighted(
        [part / total if total else 1.0 for part, total in zip(own, whole, strict=False)]
    )


def _is_of_memory(error: Exception) -> bool:
    """Whether an error says that memory does not suffice; that of CUDA itself has no own type."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
        words in str(error) for words in ("DefaultCPUAllocator", "CUDA error: out of memory")
    )
