"""Back-off n-gram models in the ARPA format, as SRILM and KenLM write them.

A listed n-gram has its probability; any other has bow(h) · p(w | h'). In the interpolated form of
`asr.lm.word_ngrams` the explicit part of a listed n-gram is p(w | h) − bow(h) · p(w | h'), which is
negative where a model without interpolation lists a word as less probable than its back-off. The
rest of a context, 1 minus its explicit parts, is then its back-off weight if the probabilities in
the file sum to 1; where they do not, or n-grams with unknown words are left out, they are
normalised by the rest. Source: Doug Paul's format, SRILM's ngram-format(5).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from asr.errors import UserError
from asr.lm.word_ngrams import SPECIAL_WORDS, Table, WordNgrams
from asr.text.lines import Line, read_lines

_START: Final = "<s>"
_END: Final = "</s>"
_UNKNOWN: Final = "<unk>"
_LEAST: Final = 1e-7  # probability of an unknown word in a model without one
_LAST: Final = "\\end\\"
_ROUNDING: Final = 1e-4  # by which the logarithm of a probability of 1 may exceed 0
_COUNT: Final = re.compile(r"ngram +(\d+) *= *(\d+)")
_SECTION: Final = re.compile(r"\\(\d+)-grams:")
_SPELLABLE: Final = re.compile(r"[a-z']+")

Ngram = tuple[int, ...]


def is_arpa(path: Path) -> bool:
    """Return whether a path is that of an ARPA file, by its ending: .arpa, .arpa.gz or .lm."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".xz")
    return name.endswith((".arpa", ".lm"))


def read_arpa(path: Path) -> WordNgrams:
    """Read a model; words become lower case, and those with other signs than a to z and ' unknown.

    Of words that become equal, and of n-grams of theirs, the first is kept.

    Raises:
        UserError: the file cannot be read, is no ARPA file, or is not whole.
    """
    orders = _read(path)
    spelt = sorted({word for (word,) in orders[0] if _SPELLABLE.fullmatch(word)})
    if not spelt:
        raise UserError(f"{path}: none of its {len(orders[0])} words is spelt in a to z")
    count = len(spelt)
    ids = {word: place for place, word in enumerate(spelt)}
    ids |= {_END: count, _START: count + 1, _UNKNOWN: count + 2}
    numbered = [_numbered(order, ids) for order in orders]
    unigrams = np.zeros(count + SPECIAL_WORDS)
    for (word,), (probability, _) in numbered[0].items():
        unigrams[word] = probability
    unigrams[count + 1] = 0.0  # nothing predicts the start
    unigrams[count + 2] = max(unigrams[count + 2], _LEAST)
    unigrams /= unigrams.sum()
    tables: list[Table] = []
    contexts: dict[Ngram, int] = {(word,): word for word in range(len(unigrams))}
    for order in range(1, len(numbered)):
        table, contexts = _table(numbered, order, contexts, len(unigrams))
        tables.append(table)
    return WordNgrams(spelt, unigrams, tables)


def _table(
    orders: list[dict[Ngram, tuple[float, float]]],
    order: int,
    contexts: Mapping[Ngram, int],
    size: int,
) -> tuple[Table, dict[Ngram, int]]:
    """Return the table of the n-grams of order + 1, and their indices.

    contexts: the indices of the n-grams of the order below.
    """
    coded = sorted(
        (contexts[ngram[:-1]] * size + ngram[-1], ngram)
        for ngram in orders[order]
        if ngram[:-1] in contexts
    )
    explicit = [
        orders[order][ngram][0] - _back_off(orders, ngram[:-1]) * _probability(orders, ngram[1:])
        for _, ngram in coded
    ]
    codes = np.array([code for code, _ in coded], np.int64)
    return Table(codes, np.array(explicit)), {ngram: at for at, (_, ngram) in enumerate(coded)}


def _probability(orders: list[dict[Ngram, tuple[float, float]]], ngram: Ngram) -> float:
    """Return p(w | h) of the last word of an n-gram, by back-off."""
    factor = 1.0
    while ngram:
        found = orders[len(ngram) - 1].get(ngram)
        if found is not None:
            return factor * found[0]
        factor *= _back_off(orders, ngram[:-1])
        ngram = ngram[1:]
    return 0.0


def _back_off(orders: list[dict[Ngram, tuple[float, float]]], context: Ngram) -> float:
    found = orders[len(context) - 1].get(context) if context else None
    return 1.0 if found is None else found[1]


def _numbered(
    order: Mapping[tuple[str, ...], tuple[float, float]], ids: Mapping[str, int]
) -> dict[Ngram, tuple[float, float]]:
    """Return the n-grams of known words by their numbers."""
    found: dict[Ngram, tuple[float, float]] = {}
    for words, values in order.items():
        if all(word in ids for word in words):
            found.setdefault(tuple(ids[word] for word in words), values)
    return found


def _read(path: Path) -> list[dict[tuple[str, ...], tuple[float, float]]]:
    """Return for each order n-gram → (probability, back-off weight), words in lower case."""
    orders: list[dict[tuple[str, ...], tuple[float, float]]] = []
    counts: dict[int, int] = {}
    lines = 0  # of the section
    for number, text in _entries(path):
        header = _SECTION.fullmatch(text)
        if orders and (header or text == _LAST):
            wanted = counts.pop(len(orders), 0)
            if lines != wanted or not orders[0]:
                raise UserError(
                    f"{path}:{number}: {lines} n-grams of order {len(orders)}, but {wanted} by the "
                    "header: get a whole copy"
                )
            lines = 0
        if text == _LAST:
            break
        if header:
            if int(header[1]) != len(orders) + 1:
                raise UserError(f"{path}:{number}: got {text}, wanted \\{len(orders) + 1}-grams:")
            orders.append({})
        elif orders:
            words, values = _parsed(path, number, text, len(orders))
            orders[-1].setdefault(words, values)
            lines += 1
        elif count := _COUNT.fullmatch(text):
            counts[int(count[1])] = int(count[2])
    else:
        if orders:
            raise UserError(f"{path}: ends early, without {_LAST}: get a whole copy")
    if not orders:
        raise UserError(f"{path}: not a language model in the ARPA format: no \\1-grams:")
    if any(counts.values()):
        raise UserError(f"{path}: without the {max(counts)}-grams of its header: get a whole copy")
    return orders


def _entries(path: Path) -> Iterator[Line]:
    """Yield the lines that are not empty, after \\data\\."""
    begun = False
    for line in read_lines(path):
        text = line.text.strip()
        if begun and text:
            yield Line(line.number, text)
        begun = begun or text == "\\data\\"


def _parsed(
    path: Path, number: int, text: str, order: int
) -> tuple[tuple[str, ...], tuple[float, float]]:
    fields = text.split()
    try:
        if len(fields) not in (order + 1, order + 2):
            raise ValueError
        logs = float(fields[0]), float(fields[order + 1]) if len(fields) == order + 2 else 0.0
        if not (math.isfinite(logs[0]) and math.isfinite(logs[1]) and logs[0] <= _ROUNDING):
            raise ValueError
        probability, back_off = min(1.0, 10.0 ** logs[0]), 10.0 ** logs[1]
    except (ValueError, OverflowError):
        raise UserError(
            f"{path}:{number}: got {text[:40]!r}, wanted the logarithm of a probability, "
            f"{order} words and perhaps that of a back-off weight"
        ) from None
    return tuple(word.lower() for word in fields[1 : order + 1]), (probability, back_off)
