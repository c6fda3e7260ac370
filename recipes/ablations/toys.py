"""Toys on integers: what is to be said of a list of them, and lists to learn and to test it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from asr.errors import UserError
from asr.text.vocabulary import EOS, SPECIALS, Vocabulary
from asr.training.tasks.translation_data import Example

INTEGERS = 50  # 0 to 49
TRAINED = (1, 10)  # integers in a list, least and most
BEYOND = (11, 20)  # the same, in the lists that are longer than any trained on
PRIMES = frozenset(n for n in range(2, INTEGERS) if all(n % d for d in range(2, n)))
VOCABULARY = Vocabulary(SPECIALS + tuple(map(str, range(INTEGERS))), spaced=True)


def primes_backwards(numbers: list[int]) -> list[int]:
    """Return the primes among the numbers, the last one first; there may be none."""
    return [number for number in reversed(numbers) if number in PRIMES]


TOYS: Mapping[str, Callable[[list[int]], list[int]]] = MappingProxyType(
    {
        "primes": primes_backwards,
        "reverse": lambda numbers: numbers[::-1],
        "copy": list,
        "sort": sorted,
    }
)


@dataclass(frozen=True)
class Sizes:
    """How many lists there are of each sort."""

    train: int = 20_000
    test: int = 500
    beyond: int = 500


@dataclass(frozen=True)
class ToyData:
    """Examples: to train on; of the same lengths, but other lists; and of lengths beyond."""

    train: list[Example]
    test: list[Example]
    beyond: list[Example]


def make_data(toy: str, seed: int, sizes: Sizes) -> ToyData:
    """Make the data of a toy, which follow from the seed; no list is there twice.

    The lists are the same for all toys. What the test holds is drawn evenly from all lists.

    Raises UserError when there is no such toy.
    """
    if toy not in TOYS:
        raise UserError(f"toy {toy!r} is not one of: {', '.join(TOYS)}")
    random = np.random.default_rng(seed)
    lists = _draw(sizes.test + sizes.train, TRAINED, random)
    random.shuffle(lists)  # of the shortest lists there are few, and they are drawn early
    beyond = _draw(sizes.beyond, BEYOND, random)
    parts = lists[sizes.test :], lists[: sizes.test], beyond
    return ToyData(*([_example(toy, numbers) for numbers in part] for part in parts))


def _draw(count: int, lengths: tuple[int, int], random: np.random.Generator) -> list[list[int]]:
    """Draw distinct lists, of all lengths alike but for those of which there are too few."""
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        length = random.integers(lengths[0], lengths[1] + 1)
        found[tuple(random.integers(INTEGERS, size=length).tolist())] = None
    return [list(numbers) for numbers in found]


def _example(toy: str, numbers: list[int]) -> Example:
    return Example([*ids(numbers), EOS], ids(TOYS[toy](numbers)))


def ids(numbers: list[int]) -> list[int]:
    """Return the ids of integers in `VOCABULARY`."""
    return [len(SPECIALS) + number for number in numbers]
