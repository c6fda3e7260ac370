"""Toy tasks on lists of integers, with training and test data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from asr.errors import UserError
from asr.text.vocabulary import EOS, SPECIALS, Vocabulary
from asr.training.tasks.translation_data import Example

INTEGERS = 50  # 0 to 49
TRAINED = (1, 10)  # shortest and longest list in training
BEYOND = (11, 20)  # shortest and longest list of the test on longer lists
PRIMES = frozenset(n for n in range(2, INTEGERS) if all(n % d for d in range(2, n)))
VOCABULARY = Vocabulary(SPECIALS + tuple(map(str, range(INTEGERS))), spaced=True)


def primes_backwards(numbers: list[int]) -> list[int]:
    """Return the primes among the numbers in reverse order; may be empty."""
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
    """Number of lists of each kind."""

    train: int = 20_000
    test: int = 500
    beyond: int = 500


@dataclass(frozen=True)
class ToyData:
    """Examples: for training; for tests on other lists of the same lengths; and on longer ones."""

    train: list[Example]
    test: list[Example]
    beyond: list[Example]


def make_data(toy: str, seed: int, sizes: Sizes) -> ToyData:
    """Make the data of a toy task; they depend only on the seed. All lists are distinct.

    The lists are the same for all tasks. Test lists are drawn uniformly from all lists.

    Raises UserError if the task is unknown.
    """
    if toy not in TOYS:
        raise UserError(f"toy {toy!r} is not one of: {', '.join(TOYS)}")
    random = np.random.default_rng(seed)
    lists = _draw(sizes.test + sizes.train, TRAINED, random)
    random.shuffle(lists)  # short lists are few and are drawn first
    beyond = _draw(sizes.beyond, BEYOND, random)
    parts = lists[sizes.test :], lists[: sizes.test], beyond
    return ToyData(*([_example(toy, numbers) for numbers in part] for part in parts))


def _draw(count: int, lengths: tuple[int, int], random: np.random.Generator) -> list[list[int]]:
    """Draw distinct lists, uniformly over lengths as far as enough lists exist."""
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
