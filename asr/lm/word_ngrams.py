"""Word n-grams in interpolated form, whose probabilities can be summed over ranges of words.

    p_n(w | h) = explicit_n(h, w) + rest_n(h) · p_{n−1}(w | h')

explicit_n is the discounted relative frequency of a kept n-gram, 0 for others. rest_n(h) =
1 − Σ_w explicit_n(h, w) is the remaining probability, that of pruned n-grams included. h' is h
without its oldest word. The formula is linear in p, so it also holds for the sum over a range of
words, which a search over characters needs (`asr.lm.lookahead`). `asr.lm.estimation` makes such a
model from texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.checksums import read_verified, renew_checksum, write_whole
from asr.errors import UserError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

FORMAT = 1  # of the file
SPECIAL_WORDS = 3  # after the words: end of text, start of text, unknown word
_LEVELS = 255  # of a stored probability
_LEAST = -20.0  # nats; the lowest level


class Table(NamedTuple):
    """N-grams of one order.

    codes: (n,) sorted, context · (W + 3) + word. The context of a bigram is its first word, of a
        longer n-gram the index of its context in the table of the next lower order.
    explicit: (n,) explicit probability of each, float32 if read from a file.
    """

    codes: Integers
    explicit: NDArray[np.floating[Any]]


class WordNgrams(NamedTuple):
    """A word n-gram model as data.

    words: in the order of their numbers; end, start and unknown follow as W, W + 1 and W + 2.
    unigrams: (W + 3,), p_1. tables: of orders 2, 3, ….
    """

    words: list[str]
    unigrams: Floats
    tables: list[Table]

    def save(self, path: Path | str) -> None:
        """Write the model as compressed .npz, probabilities as bytes on a logarithmic scale."""
        arrays: dict[str, NDArray[np.generic]] = {
            "format": np.array(FORMAT),
            "words": np.frombuffer("\n".join(self.words).encode(), np.uint8),
            "unigrams": self.unigrams.astype(np.float32),
        }
        size = len(self.unigrams)
        for order, table in enumerate(self.tables, start=2):
            arrays[f"follow{order}"] = _small(np.bincount(table.codes // size))  # per context
            arrays[f"last{order}"] = _small(table.codes % size)
            arrays[f"levels{order}"] = _levels(table.explicit)
        content = BytesIO()
        np.savez_compressed(content, **arrays)  # type: ignore[arg-type]  # numpy/numpy#25770
        write_whole(Path(path), content.getvalue())
        renew_checksum(Path(path))

    @classmethod
    def load(cls, path: Path | str) -> WordNgrams:
        """Read a model that `save` wrote.

        Raises:
            UserError: the file cannot be read, or is not such a model.
        """
        try:
            content = read_verified(Path(path))
            with np.load(BytesIO(content), allow_pickle=False) as file:
                found = _parsed(file)
        except UserError:
            raise
        except OSError as error:
            raise UserError(f"{path}: cannot read the language model: {error.strerror}") from error
        except Exception as error:  # a damaged archive can raise almost anything
            raise UserError(f"{path}: not a word n-gram model: {error!r:.200}") from error
        return found


def _parsed(file: Mapping[str, NDArray[Any]]) -> WordNgrams:
    """Return the model of a file's arrays.

    Raises:
        ValueError: they are not those of a model.
    """
    if "format" in file and int(file["format"]) != FORMAT:
        raise ValueError(f"format {int(file['format'])}, but this version reads format {FORMAT}")
    words = file["words"].tobytes().decode().split("\n")
    unigrams = file["unigrams"].astype(np.float64)
    if unigrams.shape != (len(words) + SPECIAL_WORDS,) or not (unigrams >= 0).all():
        raise ValueError("its unigrams are not probabilities of its words")
    total = unigrams.sum()
    if not 0 < total < np.inf:
        raise ValueError("its unigrams do not sum to a number above 0")
    tables: list[Table] = []
    contexts = len(unigrams)
    for order in range(2, 2 + sum(name.startswith("last") for name in file)):
        follow, last, levels = (file[f"{name}{order}"] for name in ("follow", "last", "levels"))
        tables.append(_table(follow, last, levels, contexts, len(unigrams)))
        contexts = len(tables[-1].codes)
    return WordNgrams(words, unigrams / total, tables)


def _table(
    follow: NDArray[Any], last: NDArray[Any], levels: NDArray[Any], contexts: int, size: int
) -> Table:
    """Return the table of an order, of `contexts` contexts and `size` words.

    follow: (≤ contexts,), n-grams of each context. last: (n,), their last words. levels: (n,).

    Raises:
        ValueError: the arrays do not fit each other.
    """
    if any(each.ndim != 1 or each.dtype.kind != "u" for each in (follow, last, levels)):
        raise ValueError("an array is not a list of counts")
    if levels.dtype != np.uint8 or len(follow) > contexts or follow.max(initial=0) > size:
        raise ValueError("an array has other sizes than its words")
    if not follow.sum(dtype=np.int64) == len(last) == len(levels) or last.max(initial=0) >= size:
        raise ValueError("its n-grams are not those of its contexts")
    some = np.flatnonzero(follow)  # most contexts of the higher orders have none
    codes = np.repeat(some, follow[some]) * size + last
    if (codes[1:] <= codes[:-1]).any():
        raise ValueError("its n-grams are not sorted")
    return Table(codes, _probabilities(levels))


def _small(numbers: Integers) -> NDArray[np.unsignedinteger[Any]]:
    """Return numbers, not negative, in the smallest type that holds the largest."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))


def _levels(probabilities: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Quantise probabilities."""
    with np.errstate(divide="ignore"):
        scaled = np.log(probabilities) / _LEAST * _LEVELS
    levels: NDArray[np.uint8] = np.clip(np.ceil(scaled), 0, _LEVELS).astype(np.uint8)
    return levels  # probabilities are rounded down, so that no context sums to more than 1


def _probabilities(levels: NDArray[np.uint8]) -> NDArray[np.float32]:
    of_levels = np.exp(np.arange(_LEVELS + 1) / _LEVELS * _LEAST).astype(np.float32)
    return of_levels[levels]
