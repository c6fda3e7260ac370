"""Sentence pairs for translation: read, tidied, and split so that no source is on both sides."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from asr.errors import UserError


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


def read_pairs(path: str | Path, limit: int = 0) -> list[Pair]:
    """Read `source<TAB>target` lines, UTF-8, from a file or a .gz file.

    Further columns (an attribution, say) and blank lines are passed over. limit: stop after so
    many pairs; 0 reads all.

    Raises UserError when the file cannot be read, a line lacks the tab or one side, or there is
    no pair at all.
    """
    path = Path(path)
    pairs = list(islice(_pairs(path), limit or None))
    if not pairs:
        raise UserError(f"{path}: no pairs in it; wanted lines of source<TAB>target")
    return pairs


def tidy(text: str) -> str:
    """Return the text with plain apostrophes, and single plain spaces for white space of any kind.

    French sets off its punctuation by several kinds of no-break space.
    """
    return " ".join(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())


def tokenise(text: str) -> str:
    """Return words and marks parted by single spaces: lower case, a space before each , . ! ?

    The rule of the translation chapters of "Dive into Deep Learning" (Zhang et al.).
    """
    return tidy(_MARK.sub(r" \1", text.lower()))


def hold_out(
    pairs: Iterable[Pair], share: float, keep: Sequence[str] = ()
) -> tuple[list[Pair], list[Pair]]:
    """Split pairs into those to train on and those held out, by their source sentences.

    About `share` of the distinct sources are held out, each with all of its translations.
    Sources that differ only in case and punctuation stay together. A source's side follows from
    its own words alone, so that a longer file does not move it. Sources in `keep` are never
    held out.
    """
    kept = {_words(each) for each in keep}
    train: list[Pair] = []
    held: list[Pair] = []
    for pair in pairs:
        words = _words(pair.source)
        out = words not in kept and _fraction(words) < share
        (held if out else train).append(pair)
    return train, held


_MARK = re.compile(r"([,.!?])")


def _pairs(path: Path) -> Iterator[Pair]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if text.strip():
                    yield _pair(text, f"{path}:{number}")
    except UnicodeDecodeError:
        raise UserError(f"{path}:{number}: not UTF-8; save the file as UTF-8 text") from None
    except (OSError, EOFError, zlib.error) as error:  # gzip raises any of them
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot read the pairs: {reason}") from error


def _pair(line: str, where: str) -> Pair:
    source, tab, rest = line.rstrip("\r\n").partition("\t")
    if not tab:
        raise UserError(f"{where}: no tab in {line.strip()[:40]!r}; wanted source<TAB>target")
    source, target = tidy(source), tidy(rest.partition("\t")[0])
    if not source or not target:
        side = "target" if source else "source"
        raise UserError(f"{where}: the {side} is empty; wanted source<TAB>target")
    return Pair(source, target)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _fraction(text: str) -> float:
    """A number in [0, 1) that follows from the text, evenly spread over texts."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return int.from_bytes(digest[:4], "big") / 2**32
