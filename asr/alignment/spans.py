"""Times of characters and words: attention weights and CTC log-probabilities → seconds.

Frames are those of the CTC head (several per annotation), annotations those of the encoder. All
arrays belong to one utterance, without padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from asr.alignment.paths import SMALLEST_WEIGHT, Doubles, Floats, ctc_path, monotone_path
from asr.errors import UserError
from asr.results import Word

NEIGHBOURS: Final = 1  # annotations on either side of the path whose weights refine a step's place


class Reach(NamedTuple):
    """How far the span of a token extends beyond its core on the path, in seconds.

    back, ahead: longest extension before and after the core. share: part of a gap between two
        cores that goes to the earlier token, where the gap is too short for both extensions.
    """

    back: float
    ahead: float
    share: float


# Tuned on the mean error of word boundaries against forced alignments of read speech, with
# annotations of 80 ms and CTC frames of 40 ms. A change of 30 ms increases it by at most 2 ms in a
# reach, and by up to 11 ms in the two constants below.
CTC_REACH: Final = Reach(back=0.03, ahead=0.09, share=0.85)
ATTENTION_REACH: Final = Reach(back=0.03, ahead=0.16, share=0.85)
# The path places a space at the onset of the next word, and that word's first letter a little
# later.
WORD_LEAD: Final = 0.03  # seconds of that space that count as part of the word
SHORTEST_PAUSE: Final = 0.06  # seconds; a shorter gap between words is closed


def spans(
    tokens: Sequence[int],
    weights: Floats,
    ctc_log_probs: Floats | None,
    seconds_per_annotation: float,
    duration: float,
) -> list[tuple[float, float]]:
    """Return (start, end) in seconds for each token, in order, without overlap, in [0, duration].

    Times are those of the best CTC path if there is one, else of the best monotone path through
    the attention weights. On both paths a token is shorter than its sound, so its span is extended
    towards its neighbours by at most `CTC_REACH` or `ATTENTION_REACH`. A longer pause belongs to
    no token.

    weights: (U, T) or, with the row of end-of-sentence, (U + 1, T). ctc_log_probs: (T', V) of the
        same audio, or None. duration: of the audio, which may differ from T annotations.
    Raises:
        ValueError: the number of rows of weights does not fit the tokens, or T is 0 and there are
            tokens.
    """
    places = np.asarray(weights, dtype=np.float64)
    if places.ndim != 2 or len(places) - len(tokens) not in (0, 1):
        raise ValueError(f"weights must be (U, T) for {len(tokens)} tokens, got {places.shape}")
    if not tokens:
        return []
    if ctc_log_probs is not None and len(ctc_log_probs):
        seconds_per_frame = seconds_per_annotation * places.shape[1] / len(ctc_log_probs)
        try:
            path = ctc_path(ctc_log_probs, tokens)
        except UserError:
            pass  # too many tokens, or no path of finite probability: attention has a step for each
        else:
            return _extend(np.array(path) * seconds_per_frame, CTC_REACH, duration)
    centres = _centres(places[: len(tokens)]) * seconds_per_annotation
    return _extend(np.stack([centres, centres], axis=1), ATTENTION_REACH, duration)


def words(
    characters: Sequence[str],
    spans: Sequence[tuple[float, float]],
    log_probabilities: Sequence[float],
) -> list[Word]:
    """Join characters to words at spaces; confidence is exp of a word's mean log-probability.

    A word starts `WORD_LEAD` before its first character, but not before the space in front of it,
    and ends with its last character, or at the next word if the gap is below `SHORTEST_PAUSE`.

    Raises:
        ValueError: the numbers of characters, spans and log-probabilities differ.
    """
    if not len(characters) == len(spans) == len(log_probabilities):
        raise ValueError(
            f"{len(characters)} characters need as many spans and log-probabilities, "
            f"got {len(spans)} and {len(log_probabilities)}"
        )
    found: list[Word] = []
    for is_space, group in groupby(range(len(characters)), lambda at: characters[at].isspace()):
        if is_space:
            continue
        at = list(group)
        text = "".join(characters[i] for i in at)
        confidence = float(np.exp(np.mean([log_probabilities[i] for i in at])))
        earliest = spans[at[0] - 1][0] if at[0] else 0.0  # start of the space before the word
        start = max(earliest, spans[at[0]][0] - WORD_LEAD)
        if found and start - found[-1].end < SHORTEST_PAUSE:
            found[-1] = found[-1]._replace(end=start)
        found.append(Word(text, start, spans[at[-1]][1], min(1.0, confidence)))
    return found


def _centres(weights: Doubles) -> Doubles:
    """Return the place of each step (U,) in annotations: the mean of its weights near the path.

    The mean resolves less than one annotation, so it separates steps that share one.
    """
    steps, annotations = weights.shape
    path = np.array(monotone_path(weights))
    offsets = np.arange(-NEIGHBOURS, NEIGHBOURS + 1)
    near = path[:, None] + offsets  # (U, 1 + 2·NEIGHBOURS)
    inside = (near >= 0) & (near < annotations)
    rows = np.arange(steps)[:, None]
    shares = np.where(inside, weights[rows, near.clip(0, annotations - 1)], 0)
    moved = (shares * offsets).sum(1) / np.maximum(shares.sum(1), SMALLEST_WEIGHT)
    centres: Doubles = np.maximum.accumulate(path + 0.5 + moved)
    return centres


def _extend(cores: Doubles, reach: Reach, duration: float) -> list[tuple[float, float]]:
    """Extend cores (U, 2), in seconds, into the gaps between them."""
    starts, ends = cores[:, 0], cores[:, 1]
    splits = ends[:-1] + reach.share * (starts[1:] - ends[:-1])  # (U − 1,), one for each gap
    starts = np.maximum(starts - reach.back, np.concatenate([[0.0], splits]))
    ends = np.minimum(ends + reach.ahead, np.concatenate([splits, [np.inf]]))
    within = np.clip(np.stack([starts, ends], axis=1), 0, duration)
    return [(start, end) for start, end in within.tolist()]
