"""Translation of subtitles: by sentences, with the times of the cues."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.render.subtitles import turns
from asr.results import Span, Translation, WordWeights
from asr.text.sentences import split_sentences

LONGEST_GAP: Final = 2.0  # seconds between two cues of the same sentence, at most
MOST_WORDS: Final = 40  # of a joined sentence; quality degrades on longer ones
_END: Final = re.compile(r"""[.!?…]["'”’»)\]]*$""")
_WORD: Final = re.compile(r"\w")


class _Fragment(NamedTuple):
    """The text of one speaker in a cue, with the index of the cue; dash: see `Turn`."""

    cue: int
    dash: str
    text: str


def translate_cues(
    cues: Sequence[Span], translate: Callable[[list[str]], list[Translation]]
) -> list[list[str]]:
    """Return the translated lines of each cue, one per speaker.

    A sentence of several cues is translated as a whole and split where the attention of its words
    moves to the next cue.
    """
    passages = _passages(cues)
    whole = translate([" ".join(each.text for each in passage) for passage in passages])
    lines: list[list[str]] = [[] for _ in cues]
    for passage, translation in zip(passages, whole, strict=True):
        texts = [translation.text]
        if len(passage) > 1:
            texts = cut(translation.words, [each.text for each in passage])
        for fragment, text in zip(passage, texts, strict=True):
            lines[fragment.cue].append(fragment.dash + text)
    return lines


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
    return [" ".join(words[start:stop]) for start, stop in pairwise(edges)]


def _passages(cues: Sequence[Span]) -> list[list[_Fragment]]:
    """Group fragments: those of a sentence over several cues together, others alone."""
    passages: list[list[_Fragment]] = []
    texts = [turns(cue.text) for cue in cues]
    for number, its in enumerate(texts):
        for place, turn in enumerate(its):
            fragment = _Fragment(number, turn.dash, turn.text)
            follows = number > 0 and place == 0 and bool(texts[number - 1]) and not turn.dash
            if follows and _goes_on(cues[number - 1], cues[number], passages[-1], turn.text):
                passages[-1].append(fragment)
            else:
                passages.append([fragment])
    return passages


def _goes_on(before: Span, cue: Span, passage: Sequence[_Fragment], text: str) -> bool:
    """Whether the first text of a cue continues the last passage of the previous cue.

    Texts in lower case, such as transcripts, give no indication.
    """
    before_text = " ".join(each.text for each in passage)
    sentence = f"{split_sentences(before_text)[-1]} {split_sentences(text)[0]}"
    return (
        cue.start - before.end <= LONGEST_GAP
        and not _END.search(before_text)
        and text[0].islower()
        and any(map(str.isupper, before_text))
        and len(sentence.split()) <= MOST_WORDS
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
