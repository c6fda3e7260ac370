"""Best monotone paths by dynamic programming: through CTC log-probabilities and attention weights.

Frames are those of the CTC head (several per annotation), annotations those of the encoder. All
arrays belong to one utterance, without padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from asr.errors import UserError
from asr.text.vocabulary import BLANK

Floats = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]

# Lower bound of a weight: one outlying step then costs the path at most 9 nats and cannot displace
# its neighbours.
SMALLEST_WEIGHT: Final = 1e-4


def ctc_path(log_probs: Floats, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """Return the frames of each token on the best CTC path, as (first, last + 1).

    Viterbi search over the tokens with a blank before, between and after them. A blank may be
    skipped unless it separates two equal tokens. O(T'·U).

    log_probs: (T', V), blank at id 0.
    Raises:
        UserError: no path emits all tokens within T' frames.
        ValueError: a token is the blank or outside the vocabulary; log_probs is not (T', V).
    Source: Graves et al. 2006, section 4.1, with the maximum in place of the sum.
    """
    scores = np.asarray(log_probs, dtype=np.float64)
    if scores.ndim != 2:
        raise ValueError(f"log_probs must be (T', V), got {scores.shape}")
    if any(not BLANK < token < scores.shape[1] for token in tokens):
        raise ValueError(f"tokens must lie between 1 and {scores.shape[1] - 1}, got {list(tokens)}")
    needed = len(tokens) + sum(one == next_one for one, next_one in pairwise(tokens))
    if needed > len(scores):
        raise UserError(
            f"text of {len(tokens)} symbols needs {needed} CTC frames, the audio has "
            f"{len(scores)}: it is too long for this audio"
        )
    if not tokens:
        return []
    states = _best_states(scores, tokens)
    firsts = np.searchsorted(states, 2 * np.arange(len(tokens)) + 1, side="left")
    stops = np.searchsorted(states, 2 * np.arange(len(tokens)) + 1, side="right")
    return list(zip(firsts.tolist(), stops.tolist(), strict=True))


def monotone_path(weights: Floats) -> list[int]:
    """Return the annotation of each step on the best path that never goes back.

    Maximises Σ_u log weights[u, t_u] subject to t_1 ≤ t_2 ≤ … ≤ t_U. Several steps may share an
    annotation, and annotations may be skipped. Of equally good paths the earliest. O(U·T).

    weights: (U, T), not negative.
    Raises:
        ValueError: weights is not (U, T), or has steps and no annotation.
    """
    energies = np.asarray(weights, dtype=np.float64)
    if energies.ndim != 2 or (len(energies) and not energies.shape[1]):
        raise ValueError(f"weights must be (U, T) with T above 0, got {energies.shape}")
    if not len(energies):
        return []
    energies = np.log(np.maximum(energies, SMALLEST_WEIGHT))
    best = energies[0]  # (T,) sum of the best path that ends here
    predecessors = []  # (T,) per step after the first
    for row in energies[1:]:
        highest, predecessor = best_so_far(best)
        predecessors.append(predecessor)
        best = highest + row
    path = [int(best.argmax())]
    for predecessor in reversed(predecessors):
        path.append(int(predecessor[path[-1]]))
    return path[::-1]


def best_so_far(scores: Doubles) -> tuple[Doubles, NDArray[np.int64]]:
    """Return max over i ≤ j of scores[i], and the first i that has it, for each place j: (P,)."""
    best: Doubles = np.maximum.accumulate(scores)
    is_new = np.concatenate([[True], scores[1:] > best[:-1]])
    return best, np.maximum.accumulate(np.where(is_new, np.arange(len(scores)), 0))


def _best_states(scores: Doubles, tokens: Sequence[int]) -> NDArray[np.int64]:
    """Return the state of each frame (T',) on the best path: 2u + 1 is token u, even is blank."""
    labels = np.full(2 * len(tokens) + 1, BLANK)  # (S,)
    labels[1::2] = tokens
    may_skip = np.zeros(len(labels), dtype=bool)  # reachable from two states before
    may_skip[3::2] = labels[3::2] != labels[1:-2:2]
    skip = np.where(may_skip[2:], 0.0, -np.inf)
    best = scores[:, labels]  # (T', S) of the emission, becomes the best sum of a path ending here
    best[0, 2:] = -np.inf
    for before, here in pairwise(best):
        reached = before.copy()
        np.maximum(reached[1:], before[:-1], out=reached[1:])
        np.maximum(reached[2:], before[:-2] + skip, out=reached[2:])
        here += reached
    state = len(labels) - 1 - int(best[-1, -2] > best[-1, -1])
    if not np.isfinite(best[-1, state]):
        raise UserError("the CTC log-probabilities allow no path for this text")
    states = np.empty(len(scores), dtype=np.int64)
    states[-1] = state
    for frame in range(len(scores) - 2, -1, -1):
        sources = best[frame, max(0, state - 1 - may_skip[state]) : state + 1]
        state -= int(sources[::-1].argmax())  # of equal ones the nearest state
        states[frame] = state
    return states
