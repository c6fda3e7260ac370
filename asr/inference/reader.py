"""What was read of a page: forced alignment of the page against free decoding.

1. Each piece of the recording is decoded freely, as `transcribe` does.
2. A search over the page (`asr.alignment.page`) finds in the CTC log-probabilities which words were
   read, skipped, read again or replaced, and where other speech was added.
3. The words so found are aligned (CTC) and passed through the decoder (teacher forcing). Three
   pieces of evidence then give the probability that a word was read as printed: `Evidence`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.alignment.page import CHOSEN, Penalties, Visit, read_page
from asr.alignment.paths import ctc_path
from asr.errors import UserError
from asr.inference.decoding import force_encoded, search_encoded
from asr.inference.encoding import EncodedPieces, encode
from asr.inference.loaded import LoadedModel
from asr.inference.options import DecodingOptions
from asr.inference.pieces import Piece
from asr.results import Hesitation, Reading, ReadStatus, ReadWord, Segment, Word
from asr.search.ctc import ctc_greedy
from asr.text.page import PageWord

LEAST: Final = -20.0  # nats; lower bound of each piece of evidence, so that none decides alone
LEAST_DOUBT: Final = 1e-3  # lower bound of 1 − confidence, likewise
HESITATION: Final = 0.6  # seconds; a shorter pause is none
HESITATION_AT_STOP: Final = 1.5  # seconds; the same where the page has punctuation


class Evidence(NamedTuple):
    """What speaks for a word having been read as printed.

    margin: log-probability of its CTC path minus that of the best symbols of the same frames, in
    nats. decoder: its log-probability by the decoder, after the words before it. agrees: whether
    free decoding found the same word there. rival: confidence of the words it found instead, the
    lowest of them; 0 if it agrees or found none. characters: of the word.
    """

    margin: float
    decoder: float
    agrees: bool
    rival: float
    characters: int


@dataclass(frozen=True)
class Judge:
    """A logistic function of the evidence; fitted by `benchmarks/reading.py`."""

    bias: float
    margin: float
    decoder: float
    agrees: float
    rival: float
    characters: float

    def probability(self, evidence: Evidence) -> float:
        """Return the probability that a word was read as printed."""
        return float(1 / (1 + np.exp(-np.dot(self.weights, features(evidence)))))

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of `features`."""
        return (self.bias, self.margin, self.decoder, self.agrees, self.rival, self.characters)


def features(evidence: Evidence) -> tuple[float, ...]:
    """Return the summands of the logistic function, the constant first."""
    return (
        1.0,
        max(LEAST, evidence.margin),
        max(LEAST, evidence.decoder),
        float(evidence.agrees),
        float(np.log(max(LEAST_DOUBT, 1 - evidence.rival))),
        float(evidence.characters),
    )


@dataclass(frozen=True)
class ReadingOptions:
    """How strictly a reading is judged.

    threshold: a word whose probability is lower is misread.
    """

    penalties: Penalties = CHOSEN
    judge: Judge = Judge(
        bias=3.78, margin=0.11, decoder=0.31, agrees=4.86, rival=1.31, characters=0.41
    )
    threshold: float = 0.8


STANDARD: Final = ReadingOptions()


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


class Judged(NamedTuple):
    """An item with its times; evidence: None if it was added."""

    item: Item
    heard: str
    start: float
    end: float
    confidence: float
    evidence: Evidence | None


def read(
    loaded: LoadedModel,
    pieces: Sequence[Piece],
    page: Sequence[PageWord],
    decoding: DecodingOptions,
    options: ReadingOptions = STANDARD,
) -> Reading:
    """Return how a page was read; pieces: of the recording, in order.

    Raises:
        UserError: the model has no CTC head or does not write characters.
    """
    judged = judge_words(loaded, hear(loaded, pieces, decoding), page, options.penalties)
    words = statuses(judged, page, options)
    return Reading(None, pieces[-1].start + pieces[-1].duration, words, _hesitations(words, page))


def hear(loaded: LoadedModel, pieces: Sequence[Piece], decoding: DecodingOptions) -> list[Heard]:
    """Encode and freely decode the pieces with speech.

    Raises:
        UserError: the model has no CTC head or does not write characters.
    """
    if not loaded.engine.has_ctc or loaded.vocabulary.kind != "characters":
        raise UserError("following a page needs a model with a CTC head that writes characters")
    return [_hear(loaded, piece, decoding) for piece in pieces if not piece.is_silent]


def _hear(loaded: LoadedModel, piece: Piece, decoding: DecodingOptions) -> Heard:
    encoded = encode(loaded, [piece], decoding.fastest)
    assert encoded.ctc is not None
    ctc = encoded.ctc[0, : encoded.ctc_lengths[0]]
    (free,) = search_encoded(loaded, [piece], encoded, decoding)
    return Heard(piece, encoded, ctc, free)


def judge_words(
    loaded: LoadedModel, heard: Sequence[Heard], page: Sequence[PageWord], penalties: Penalties
) -> list[Judged]:
    """Return the words that were said, in order, with the evidence for those of the page."""
    if not heard:
        return []
    vocabulary = loaded.vocabulary
    visits = read_page(
        np.concatenate([each.ctc for each in heard]),
        [vocabulary.encode(word.spoken) for word in page],
        vocabulary.encode(" ")[0],
        penalties,
    )
    items = _items(loaded, heard, visits, page)
    return [
        judged
        for index, each in enumerate(heard)
        for judged in _judged(loaded, each, [item for item in items if item.piece == index])
    ]


def _items(
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
    found = _within(heard.free.words, *seconds.tolist())
    return [word.text for word in found] or _spelt(loaded, heard, start, stop).split()


def _spelt(loaded: LoadedModel, heard: Heard, start: int, stop: int) -> str:
    frames = heard.ctc[None, start:stop]
    (symbols,) = ctc_greedy(frames, np.array([frames.shape[1]]))
    return loaded.vocabulary.decode(symbols)


def _within(words: Sequence[Word], start: float, end: float) -> list[Word]:
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


def _judged(loaded: LoadedModel, heard: Heard, items: Sequence[Item]) -> Iterator[Judged]:
    """Align the items of a piece, and collect the evidence for each."""
    if not items:
        return
    tokens = loaded.vocabulary.encode(" ".join(item.text for item in items))
    words = force_encoded(loaded, heard.piece, heard.encoded, tokens).words
    margins = _margins(heard.ctc, tokens, loaded.vocabulary.encode(" ")[0])
    at = 0
    for item in items:
        stop = at + len(item.text.split())
        run, margin = words[at:stop], sum(margins[at:stop])
        at = stop
        start, end = run[0].start, run[-1].end
        free = _within(heard.free.words, start, end)
        said = " ".join(word.text for word in free)
        agrees = said.replace(" ", "") == item.text.replace(" ", "")
        decoder = sum(len(word.text) * _log(word.confidence) for word in run)
        confidence = min((word.confidence or 0.0 for word in free), default=0.0)
        rival = 0.0 if agrees else confidence
        evidence = Evidence(margin, decoder, agrees, rival, len(item.text))
        yield Judged(
            item,
            item.heard or said,
            start,
            end,
            confidence,
            None if item.word is None else evidence,
        )


def _margins(ctc: NDArray[np.float32], tokens: Sequence[int], space: int) -> list[float]:
    """Return the CTC margin of each word; see `Evidence`."""
    margins = [0.0]
    highest = ctc.max(1)
    for token, (start, stop) in zip(tokens, ctc_path(ctc, tokens), strict=True):
        if token == space:
            margins.append(0.0)
        else:
            margins[-1] += float((ctc[start:stop, token] - highest[start:stop]).sum())
    return margins


def _log(probability: float | None) -> float:
    return float(np.log(max(1e-9, probability or 0.0)))


def statuses(
    judged: Sequence[Judged], page: Sequence[PageWord], options: ReadingOptions
) -> tuple[ReadWord, ...]:
    """Return the words of the page with what was added and repeated, in order."""
    last = {each.item.word: at for at, each in enumerate(judged) if each.item.word is not None}
    words: list[ReadWord] = []
    place = 0  # on the page, after the last word that was read for the last time
    for at, each in enumerate(judged):
        index = each.item.word
        if index is None:
            line = page[min(place, len(page) - 1)].line
            words.append(_added(each, line))
            continue
        assert each.evidence is not None
        if last[index] == at and index >= place:
            words += [_skipped(k, page[k]) for k in range(place, index) if k not in last]
            place = index + 1
        word = _read_word(each, page[index], options)
        words.append(word if last[index] == at else word._replace(status=ReadStatus.REPEATED))
    words += [_skipped(k, page[k]) for k in range(place, len(page)) if k not in last]
    return tuple(words)


def _added(judged: Judged, line: int) -> ReadWord:
    text = judged.item.text
    return ReadWord(
        text, ReadStatus.ADDED, text, judged.start, judged.end, judged.confidence, line, None
    )


def _skipped(index: int, word: PageWord) -> ReadWord:
    return ReadWord(word.text, ReadStatus.SKIPPED, None, None, None, None, word.line, index)


def _read_word(judged: Judged, word: PageWord, options: ReadingOptions) -> ReadWord:
    assert judged.evidence is not None
    confidence = options.judge.probability(judged.evidence)
    is_right = confidence >= options.threshold
    return ReadWord(
        word.text,
        ReadStatus.RIGHT if is_right else ReadStatus.MISREAD,
        word.spoken if is_right else judged.heard,
        judged.start,
        judged.end,
        confidence,
        word.line,
        judged.item.word,
    )


def _hesitations(words: Sequence[ReadWord], page: Sequence[PageWord]) -> tuple[Hesitation, ...]:
    """Return the long pauses between words."""
    stops = {word.text for word in page if word.stops}
    found = []
    before: ReadWord | None = None
    for index, word in enumerate(words):
        if word.start is None:
            continue
        if before is not None and before.end is not None:
            least = HESITATION_AT_STOP if before.text in stops else HESITATION
            if word.start - before.end >= least:
                found.append(Hesitation(before.end, word.start, index))
        before = word
    return tuple(found)
