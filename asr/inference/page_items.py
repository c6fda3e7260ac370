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
from asr.search.limits import step_limits
from asr.text.page import PageWord

Frames = NDArray[np.int64]


class Heard(NamedTuple):
    """A piece with speech: encoded, and decoded freely. ctc: (T', V) log-probabilities."""

    piece: Piece
    encoded: EncodedPieces
    ctc: NDArray[np.float32]
    free: Segment

    @property
    def seconds_per_frame(self) -> float:
        """Seconds of a frame of `ctc`."""
        return self.piece.duration / len(self.ctc)

    def seconds(self, start: int, stop: int) -> tuple[float, float]:
        """Return the time of frames start … stop − 1 in the recording."""
        first, last = (self.piece.start + at * self.seconds_per_frame for at in (start, stop))
        return first, last


class Item(NamedTuple):
    """A word in order of time. word: index on the page; None if it was added.

    text: the word that is aligned, of the page if there is one and it fits. heard: what free
    decoding found; None if it must be looked up by time. fits: False if nobody could have said the
    word of the page in the time; then the text is what was said.
    """

    piece: int
    word: int | None
    text: str
    heard: str | None
    fits: bool = True


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
        said = _said(loaded, heard, visit.start - offsets[:-1], visit.stop - offsets[:-1])
        following = visits[index + 1].word if index + 1 < len(visits) else len(page)
        replaced = range(place, following or 0)
        spoken = [page[word].spoken for word in replaced]
        again = range(place - len(said), place)
        texts = [page[word].spoken for word in again if word >= 0]
        if said and not replaced and [each.text for each in said] == texts:
            for each, word in zip(said, again, strict=True):
                items.append(Item(each.piece, word, each.text, each.text))
            continue
        seconds = (visit.stop - visit.start) * heard[piece].seconds_per_frame
        items += (_fitted(item, seconds) for item in _replacements(said, replaced, spoken))
    return items


def _fitted(item: Item, seconds: float) -> Item:
    """Replace the text by what was said if it is too long for the seconds of other speech.

    Otherwise its alignment would take the time of the words around it.
    """
    (longest,) = step_limits(np.array([seconds]))
    if item.word is None or not item.heard or len(item.text) <= longest:
        return item
    return item._replace(text=item.heard, fits=False)


class Said(NamedTuple):
    """A word that was said, and its piece."""

    piece: int
    text: str


def _said(loaded: LoadedModel, heard: Sequence[Heard], starts: Frames, stops: Frames) -> list[Said]:
    """Return the words said in a stretch: by free decoding, or CTC's best symbols.

    starts, stops: of the stretch in frames of each piece; it may cross cuts.
    """
    sizes = [len(each.ctc) for each in heard]
    parts = np.clip(np.stack([starts, stops], 1), 0, np.array(sizes)[:, None]).tolist()
    inside = [(at, *part) for at, part in enumerate(parts) if part[0] < part[1]]
    found = [
        Said(at, word.text)
        for at, start, stop in inside
        for word in within(heard[at].free.words, *heard[at].seconds(start, stop))
    ]
    return found or [
        Said(at, text)
        for at, start, stop in inside
        for text in spelt(loaded, heard[at], start, stop).split()
    ]


def spelt(loaded: LoadedModel, heard: Heard, start: int, stop: int) -> str:
    """Return the text of CTC's best symbols in frames start … stop − 1."""
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
    said: Sequence[Said], replaced: Sequence[int], spoken: Sequence[str]
) -> Iterator[Item]:
    """Align words that were said with the page words in whose place they were said."""
    texts = [each.text for each in said]
    if len(spoken) == 1 and said:
        first, after = _most_similar(texts, spoken[0])
        yield from (Item(piece, None, word, word) for piece, word in said[:first])
        yield Item(said[first].piece, replaced[0], spoken[0], " ".join(texts[first:after]))
        yield from (Item(piece, None, word, word) for piece, word in said[after:])
        return
    for word, at in _aligned(texts, spoken):
        piece, text = said[at]
        if word is not None:
            yield Item(piece, replaced[word], spoken[word], text)
        else:
            yield Item(piece, None, text, text)


def _most_similar(said: Sequence[str], spoken: str) -> tuple[int, int]:
    """Return the run of words said that is most similar to a page word; the first of equal ones."""
    best, found = -1.0, (0, 1)
    for first in range(len(said)):
        for after in range(first + 1, len(said) + 1):
            run = "".join(said[first:after])
            highest = 2 * min(len(run), len(spoken)) / (len(run) + len(spoken))
            if highest > best:
                ratio = SequenceMatcher(None, run, spoken).ratio()
                if ratio > best:
                    best, found = ratio, (first, after)
            elif len(run) >= len(spoken):  # and longer runs are less similar still
                break
    return found


def _aligned(said: Sequence[str], spoken: Sequence[str]) -> Iterator[tuple[int | None, int]]:
    """Yield the index of a page word, or None, for the index of each word that was said."""
    if not said or not spoken:
        yield from ((None, at) for at in range(len(said)))
        return
    import jiwer

    (chunks,) = jiwer.process_words(
        " ".join(text.replace(" ", "") for text in spoken), " ".join(said)
    ).alignments
    for chunk in chunks:
        words = range(chunk.ref_start_idx, chunk.ref_end_idx)
        texts = range(chunk.hyp_start_idx, chunk.hyp_end_idx)
        if chunk.type == "insert":
            yield from ((None, at) for at in texts)
        elif chunk.type != "delete":
            yield from zip(words, texts, strict=True)
