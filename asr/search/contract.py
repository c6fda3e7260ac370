"""What a search asks of a decoder: less than `asr.models.decoder.Decoder` and an ensemble offer."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from torch import Tensor

from asr.attention.contract import Alignment


class SearchMemory(Protocol):
    """What was prepared of B utterances: a NamedTuple of tensors (B, …), or of such tuples."""

    @property
    def values(self) -> Tensor:
        """Annotations (B, T, E)."""

    @property
    def mask(self) -> Tensor:
        """Where there is something to attend to, (B, T) bool."""


class SearchState(Protocol):
    """What a step hands to the next: a NamedTuple of tensors (B, N, …), or of such tuples."""

    @property
    def alignment(self) -> Alignment:
        """Where the steps looked, (B, N, T)."""

    def select(self, index: Tensor) -> Self:
        """Reorder hypotheses: the m-th new one is the old one index[b, m]; index (B, M)."""


Memory = TypeVar("Memory", bound=SearchMemory)
State = TypeVar("State", bound=SearchState)
MemoryIn = TypeVar("MemoryIn", bound=SearchMemory, contravariant=True)


class SearchDecoder(Protocol[MemoryIn, State]):
    """A decoder with its own kind of memory and of state."""

    def start(self, memory: MemoryIn, /) -> State:
        """Return the state before the first step, with N = 1."""

    def step(self, token: Tensor, state: State, memory: MemoryIn, /) -> tuple[Tensor, State]:
        """Take the last tokens (B, N) and give logits (B, N, V) of the next ones."""
