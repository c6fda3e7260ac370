"""The path through a page as words in order of time, with what was said in place of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.alignment.page import Visit
from asr.inference.encoding import EncodedPieces
from asr.inference.loaded import LoadedModel
from asr.inference.pieces import Piece
from asr.results import Segment, Word
from asr.search.ctc_path import ctc_greedy
from asr.text.page import PageWord


class Heard(NamedTuple):
    """A piece with speech: encoded, and decoded freely. ctc: (T', V) log-probabilities."""

    piece: Piece
    encoded: EncodedPieces
    ctc: NDArray[np.float32]
    free: Segment

    @property
    def seconds_per_frame(self) -> float:
        return self.piece.duration / len(self.ctc)


class Item(NamedTuple):
    """A word in order of time. word: index on the page; None if it was added.

    text: the word that is aligned, of the page if there is one. heard: what free decoding found;
    None if it must be looked up by time.
    """

    piece: int
    word: int | None
    text: str
    heard: str | None


def find_items(
    loaded: LoadedModel, heard: Sequence[Heard], visits: Sequence[Visit], page: Sequence[PageWord]
) -> list[Item]:
    """Return the words of a path; other speech is aligned with the page words it replaces.

    Other speech that equals the page words before it repeats them.
    """
    offsets = np.cumsum([0, *(len(each.ctc) for each in heard)])
    items: list[Item] = []
    place = 0  # on the page, after the last word that was read
    for index, visit in enumerate(visits):
        piece = int(np.searchsorted(offsets, visit.start, side="right")) - 1
        if visit.word is not None:
            items.append(Item(piece, visit.word, page[visit.word].spoken, None))
            place = visit.word + 1
            continue
        start = visit.start - int(offsets[piece])
        said = _said(loaded, heard[piece], start, start + visit.stop - visit.start)
        following = visits[index + 1].word if index + 1 < len(visits) else len(page)
        replaced = range(place, following or 0)
        again = range(place - len(said), place)
        if said and not replaced and said == [page[word].spoken for word in again if word >= 0]:
            items += [Item(piece, word, page[word].spoken, page[word].spoken) for word in again]
            continue
        items += _replacements(piece, said, replaced, [page[word].spoken for word in replaced])
    return items


def _said(loaded: LoadedModel, heard: Heard, start: int, stop: int) -> list[str]:
    """Return the words said in frames start … stop − 1: by free decoding, or CTC's best symbols."""
    seconds = heard.piece.start + np.array([start, stop]) * heard.seconds_per_frame
    found = within(heard.free.words, *seconds.tolist())
    return [word.text for word in found] or spelt(loaded, heard, start, stop).split()


def spelt(loaded: LoadedModel, heard: Heard, start: int, stop: int) -> str:
    frames = heard.ctc[None, start:stop]
    (symbols,) = ctc_greedy(frames, np.array([frames.shape[1]]))
    return loaded.vocabulary.decode(symbols)


def within(words: Sequence[Word], start: float, end: float) -> list[Word]:
    """Return the words more than half of which lies within a time."""
    return [
        word
        for word in words
        if min(end, word.end) - max(start, word.start) > (word.end - word.start) / 2
    ]


def _replacements(
    piece: int, said: Sequence[str], replaced: Sequence[int], spoken: Sequence[str]
) -> Iterator[Item]:
    """Align words that were said with the page words in whose place they were said."""
    if len(spoken) == 1 and said:
        first, after = _most_similar(said, spoken[0])
        yield from (Item(piece, None, word, word) for word in said[:first])
        yield Item(piece, replaced[0], spoken[0], " ".join(said[first:after]))
        yield from (Item(piece, None, word, word) for word in said[after:])
        return
    for word, text in _aligned(said, spoken):
        if text is not None and word is not None:
            yield Item(piece, replaced[word], spoken[word], text)
        elif text is not None:
            yield Item(piece, None, text, text)


def _most_similar(said: Sequence[str], spoken: str) -> tuple[int, int]:
    """Return the run of words said that is most similar to a page word."""
    runs = [(i, j) for i in range(len(said)) for j in range(i + 1, len(said) + 1)]
    return max(
        runs,
        key=lambda run: SequenceMatcher(None, "".join(said[slice(*run)]), spoken).ratio(),
    )


def _aligned(said: Sequence[str], spoken: Sequence[str]) -> Iterator[tuple[int | None, str | None]]:
    """Yield pairs of a page word and what was said; None where one is missing."""
    if not said or not spoken:
        yield from ((None, text) for text in said)
        return
    import jiwer

    (chunks,) = jiwer.process_words(
        " ".join(text.replace(" ", "") for text in spoken), " ".join(said)
    ).alignments
    for chunk in chunks:
        words = range(chunk.ref_start_idx, chunk.ref_end_idx)
        texts = said[chunk.hyp_start_idx : chunk.hyp_end_idx]
        if chunk.type == "insert":
            yield from ((None, text) for text in texts)
        elif chunk.type != "delete":
            yield from zip(words, texts, strict=True)
