"""Translation of subtitles: by sentences, with the times of the cues."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.render.markup import Kind, Piece, begins_speaker, lay_out, turns
from asr.render.subtitles import fit
from asr.results import Span
from asr.text.scripts import is_unspaced, join_words, split_words
from asr.text.sentences import split_sentences
from asr.translation import Translation, WordWeights

LONGEST_GAP: Final = 2.0  # seconds between two cues of the same sentence, at most
MOST_WORDS: Final = 40  # of a joined sentence; quality degrades on longer ones
_END: Final = re.compile(r"""[.!?…。！？]["'”’»)\]』」）]*$""")
_WORD: Final = re.compile(r"\w")


class _Fragment(NamedTuple):
    """Words of a cue, between markup; turn: of a speaker in the cue, piece: in the turn."""

    cue: int
    turn: int
    piece: int
    text: str


def translate_cues(
    cues: Sequence[Span], translate: Callable[[list[str]], list[Translation]]
) -> list[list[list[Piece]]]:
    """Return the turns of each cue with its words translated, and its markup as it was.

    A sentence of several cues, or with markup inside, is translated as a whole and split where the
    attention of its words moves to the next part. Markup is described in `asr.render.markup`.
    """
    parsed = [turns(cue.text) for cue in cues]
    passages = _passages(cues, parsed)
    whole = translate([join_words(each.text for each in passage) for passage in passages])
    for passage, translation in zip(passages, whole, strict=True):
        texts = [translation.text]
        if len(passage) > 1:
            texts = cut(translation.words, [each.text for each in passage])
        for (cue, turn, piece, _), text in zip(passage, texts, strict=True):
            its = parsed[cue][turn]
            its[piece] = its[piece]._replace(text=text)
    return parsed


def written(turns: Sequence[Sequence[Piece]]) -> str:
    """Return the text of a cue, each speaker in lines of readable length."""
    return "\n".join(lay_out(pieces, fit) for pieces in turns)


def cut(found: WordWeights, parts: Sequence[str]) -> list[str]:
    """Split a translation into one text for each part of its source, in order.

    The splits maximise the total attention of the words on their part. Punctuation stays with the
    preceding word, and no part is empty if there are enough words.
    """
    words = found.target[:-1]
    index_of_part = _part_indices(found.source[:-1], parts)
    weights = found.weights[:-1, :-1]
    on_part = np.stack([weights[:, index_of_part == part].sum(1) for part in range(len(parts))])
    edges = _best_edges(on_part, [bool(_WORD.search(word)) for word in words])
    return [join_words(words[start:stop]) for start, stop in pairwise(edges)]


def _passages(
    cues: Sequence[Span], parsed: Sequence[Sequence[Sequence[Piece]]]
) -> list[list[_Fragment]]:
    """Group fragments: those of a sentence over several cues or pieces together, others alone."""
    passages: list[list[_Fragment]] = []
    last: dict[int, int] = {}  # cue → turn of its last words
    for number, its in enumerate(parsed):
        for turn, pieces in enumerate(its):
            begins = number > 0 and turn == 0 and last.get(number - 1, -1) >= 0
            continues = begins and not begins_speaker(pieces)
            for place, piece in enumerate(pieces):
                if piece.kind is not Kind.WORDS:
                    continue
                fragment = _Fragment(number, turn, place, piece.text)
                if _joins(fragment, passages, cues, continues):
                    passages[-1].append(fragment)
                else:
                    passages.append([fragment])
                last[number] = turn
                continues = False
    return passages


def _joins(
    fragment: _Fragment,
    passages: Sequence[Sequence[_Fragment]],
    cues: Sequence[Span],
    continues: bool,
) -> bool:
    """Return whether a fragment belongs to the last passage; continues: see `_passages`."""
    if not passages:
        return False
    before = passages[-1][-1]
    if before[:2] == fragment[:2]:  # the same speaker, after markup
        return not _END.search(before.text)
    if not continues:
        return False
    return _goes_on(cues[before.cue], cues[fragment.cue], passages[-1], fragment.text)


def _goes_on(before: Span, cue: Span, passage: Sequence[_Fragment], text: str) -> bool:
    """Whether the first text of a cue continues the last passage of the previous cue.

    Texts in lower case, such as transcripts, give no indication. Chinese and Japanese have no case:
    there a sentence continues where punctuation does not end it.
    """
    before_text = " ".join(each.text for each in passage)
    sentence = f"{split_sentences(before_text)[-1]} {split_sentences(text)[0]}"
    return (
        cue.start - before.end <= LONGEST_GAP
        and not _END.search(before_text)
        and (is_unspaced(before_text) or (text[0].islower() and any(map(str.isupper, before_text))))
        and len(split_words(sentence)) <= MOST_WORDS
    )


def _part_indices(words: Sequence[str], parts: Sequence[str]) -> NDArray[np.int64]:
    """Return the index of the part of each source word, by character positions."""
    ends = np.cumsum([len("".join(part.split())) for part in parts])
    starts = np.cumsum([0, *map(len, words)])
    scaled = starts[:-1] * (ends[-1] / max(starts[-1], 1))  # unknown words may have a shorter form
    indices: NDArray[np.int64] = np.searchsorted(ends, scaled, side="right")
    return indices


def _best_edges(on_part: NDArray[np.float32], may_start: Sequence[bool]) -> list[int]:
    """Return the boundaries (K + 1) of K parts, from weights (K, U) of U words on the parts.

    may_start: for each word, whether a part may begin with it.
    """
    parts, length = on_part.shape
    sums = np.concatenate([np.zeros((parts, 1)), np.cumsum(on_part, axis=1)], axis=1)
    barred = np.array([0.0, *(0.0 if each else np.inf for each in may_start[1:]), 0.0])
    best = np.full(length + 1, -np.inf)
    best[0] = 0.0
    origins = []
    for part in range(parts):
        # (stop, start): the penalty of an empty part exceeds all weights
        gain = sums[part][:, None] - sums[part][None, :] - (length + 1) * np.eye(length + 1)
        total = best[None, :] + np.where(np.tri(length + 1, dtype=bool), gain, -np.inf)
        origins.append(total.argmax(1))
        best = total.max(1) - barred[: length + 1]
    edges = [length]
    for origin in reversed(origins):
        edges.append(int(origin[edges[-1]]))
    return edges[::-1]
