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
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.alignment.page import CHOSEN, Penalties, read_page
from asr.alignment.paths import ctc_path
from asr.errors import UserError
from asr.inference.decoding import force_encoded, search_encoded
from asr.inference.encoding import encode
from asr.inference.loaded import LoadedModel
from asr.inference.options import DecodingOptions
from asr.inference.page_items import Heard, Item, find_items, spelt, within
from asr.inference.pieces import Piece
from asr.inference.reading_evidence import FITTED, NOT_SAID, Evidence, Judge
from asr.reading import Hesitation, Reading, ReadStatus, ReadWord
from asr.results import Word
from asr.text.page import PageWord

HESITATION: Final = 0.6  # seconds; a shorter pause is none
HESITATION_AT_STOP: Final = 1.5  # seconds; the same at punctuation, and at the end of a paragraph


@dataclass(frozen=True)
class ReadingOptions:
    """How strictly a reading is judged.

    threshold: a word whose probability is lower is misread.
    """

    penalties: Penalties = CHOSEN
    judge: Judge = FITTED
    threshold: float = 0.8


STANDARD: Final = ReadingOptions()


class Judged(NamedTuple):
    """An item with its times.

    heard_confidence: of the words that free decoding found there, the lowest. evidence: None if the
    word was added.
    """

    item: Item
    heard: str
    start: float
    end: float
    heard_confidence: float
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
    require_page_model(loaded)
    return [_hear(loaded, piece, decoding) for piece in pieces if not piece.is_silent]


def require_page_model(loaded: LoadedModel) -> None:
    """Check that a model can follow a page.

    Raises:
        UserError: it has no CTC head or does not write characters.
    """
    if not loaded.engine.has_ctc or loaded.vocabulary.kind != "characters":
        raise UserError("following a page needs a model with a CTC head that writes characters")


def _hear(loaded: LoadedModel, piece: Piece, decoding: DecodingOptions) -> Heard:
    encoded = encode(loaded, [piece], decoding.fastest)
    ctc = encoded.ctc_of(0)
    assert ctc is not None
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
    items = find_items(loaded, heard, visits, page)
    return [
        judged
        for index, each in enumerate(heard)
        for judged in _judged(loaded, each, [item for item in items if item.piece == index])
    ]


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
        yield _judged_item(loaded, heard, item, words[at:stop], sum(margins[at:stop]))
        at = stop


def _judged_item(
    loaded: LoadedModel, heard: Heard, item: Item, words: Sequence[Word], margin: float
) -> Judged:
    """Collect the evidence for an item; words: those of its text, margin: of them together."""
    start, end = words[0].start, words[-1].end
    free = within(heard.free.words, start, end)
    said = " ".join(word.text for word in free)
    confidence = min((word.confidence or 0.0 for word in free), default=0.0)
    evidence = None
    if not item.fits:
        evidence = NOT_SAID
    elif item.word is not None:
        decoder = sum(len(word.text) * _log(word.confidence) for word in words)
        agrees = said.replace(" ", "") == item.text.replace(" ", "")
        rival = 0.0 if agrees else confidence
        evidence = Evidence(margin, decoder, agrees, rival, len(item.text))
    if not (item.heard or said):
        frames = (np.array([start, end]) - heard.piece.start) / heard.seconds_per_frame
        said = spelt(loaded, heard, *frames.round().astype(int).tolist())
    return Judged(item, item.heard or said, start, end, confidence, evidence)


def _margins(ctc: NDArray[np.float32], tokens: list[int], space: int) -> list[float]:
    """Return the CTC margin of each word, see `Evidence`; 0 if there are too few frames for all."""
    margins = [0.0]
    highest = ctc.max(1)
    try:
        path = ctc_path(ctc, tokens)
    except UserError:  # what the decoder found may have more characters than CTC has frames
        return [0.0] * (1 + tokens.count(space))
    for token, (start, stop) in zip(tokens, path, strict=True):
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
        text, ReadStatus.ADDED, text, judged.start, judged.end, judged.heard_confidence, line, None
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
    stops = {place for place, word in enumerate(page) if word.stops}
    found = []
    before: ReadWord | None = None
    for index, word in enumerate(words):
        if word.start is None:
            continue
        if before is not None and before.end is not None:
            least = HESITATION_AT_STOP if before.place in stops else HESITATION
            if word.start - before.end >= least:
                found.append(Hesitation(before.end, word.start, index))
        before = word
    return tuple(found)
