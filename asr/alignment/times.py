"""When was each character said? Attention weights and CTC log-probabilities → times in seconds.

Frames here are those of the CTC head (several an annotation); annotations those of the encoder.
A batch is taken apart before: everything is of one utterance, without padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.attention.contract import Memory
from asr.errors import UserError
from asr.models.decoder import Decoder
from asr.results import Word
from asr.text.vocabulary import BLANK, EOS

Numbers = Tensor | NDArray[Any]
Floats = NDArray[np.float64]

# Least weight a step is thought to have anywhere: a stray step then costs the path no more than
# 9 nats, and cannot drag its neighbours along.
SMALLEST_WEIGHT: Final = 1e-4
NEIGHBOURS: Final = 1  # annotations on either side that share in a step's place on the path


class Reach(NamedTuple):
    """How far a token's span goes beyond the core in which it was seen, in seconds.

    back, ahead: at most so far before and behind the core. share: where the room between two
        cores is too small for that, the part of it that goes to the earlier token.
    """

    back: float
    ahead: float
    share: float


# Chosen by the mean error of word boundaries against forced alignments of read speech, with
# annotations of 80 ms and CTC frames of 40 ms: 30 ms more or less in a reach cost it at most 2 ms,
# in what follows up to 11.
CTC_REACH: Final = Reach(back=0.03, ahead=0.09, share=0.85)
ATTENTION_REACH: Final = Reach(back=0.03, ahead=0.16, share=0.85)
# The space before a word is seen where the word begins to sound, its first letter a little later.
WORD_LEAD: Final = 0.03  # seconds of that space which are the word's
SHORTEST_PAUSE: Final = 0.06  # seconds; words closer than this touch


def ctc_path(log_probs: Numbers, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """Return the frames in which the best CTC path says each token, as (first, last + 1).

    Viterbi search over the tokens with a blank before, between and after them; a blank may be
    left out unless it parts two equal tokens. O(T'·U).

    log_probs: (T', V), the blank first.
    Raises:
        UserError: no path says all tokens within T' frames.
        ValueError: a token is the blank or outside the vocabulary; log_probs is not (T', V).
    Source: Graves et al. 2006, section 4.1, with the maximum in place of the sum.
    """
    scores = _numpy(log_probs)
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


def monotone_path(weights: Numbers) -> list[int]:
    """Return the annotation of each step on the best path that never goes back.

    Maximises Σ_u log weights[u, t_u] subject to t_1 ≤ t_2 ≤ … ≤ t_U; several steps may share an
    annotation, and annotations may be left out. Of equally good paths the earliest. O(U·T).

    weights: (U, T), not negative.
    Raises:
        ValueError: weights is not (U, T), or there is no annotation for its steps.
    """
    energies = _numpy(weights)
    if energies.ndim != 2 or (len(energies) and not energies.shape[1]):
        raise ValueError(f"weights must be (U, T) with T above 0, got {energies.shape}")
    if not len(energies):
        return []
    energies = np.log(np.maximum(energies, SMALLEST_WEIGHT))
    places = np.arange(energies.shape[1])
    best = energies[0]  # (T,) best sum of a path that ends here
    cames = []
    for row in energies[1:]:
        highest = np.maximum.accumulate(best)
        is_new = np.concatenate([[True], best[1:] > highest[:-1]])
        cames.append(np.maximum.accumulate(np.where(is_new, places, 0)))
        best = highest + row
    path = [int(best.argmax())]
    for came in reversed(cames):
        path.append(int(came[path[-1]]))
    return path[::-1]


def spans(
    tokens: Sequence[int],
    weights: Numbers,
    ctc_log_probs: Numbers | None,
    seconds_per_annotation: float,
    duration: float,
) -> list[tuple[float, float]]:
    """Return (start, end) in seconds for each token, in order, without overlap, in [0, duration].

    The best CTC path gives the times where there is one; else the best monotone path through the
    attention weights. Both see a token for an instant rather than for as long as it sounds, so
    a span is drawn out towards its neighbours, as far as `CTC_REACH` or `ATTENTION_REACH` allow;
    a longer pause stays outside.

    weights: (U, T) or, with the row of end-of-sentence, (U + 1, T). ctc_log_probs: (T', V) of the
        same stretch of audio, or None. duration: of the audio, which may be less or more than T
        annotations.
    Raises:
        ValueError: as many weights as tokens are wanted; T may not be 0 where there are tokens.
    """
    places = _numpy(weights)
    if places.ndim != 2 or len(places) - len(tokens) not in (0, 1):
        raise ValueError(f"weights must be (U, T) for {len(tokens)} tokens, got {places.shape}")
    if not tokens:
        return []
    if ctc_log_probs is not None and len(ctc_log_probs):
        seconds_per_frame = seconds_per_annotation * places.shape[1] / len(ctc_log_probs)
        try:
            path = ctc_path(ctc_log_probs, tokens)
        except UserError:
            pass  # more characters than CTC frames: the attention still has seen them all
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

    A word lasts from the start of its first character, or `WORD_LEAD` before it in what is the
    space's, to the end of its last, or to the next word where no `SHORTEST_PAUSE` parts them.

    Raises:
        ValueError: not as many spans or log-probabilities as characters.
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
        free = spans[at[0] - 1][0] if at[0] else 0.0  # from where on nobody else speaks
        start = max(free, spans[at[0]][0] - WORD_LEAD)
        if found and start - found[-1].end < SHORTEST_PAUSE:
            found[-1] = found[-1]._replace(end=start)
        found.append(Word(text, start, spans[at[-1]][1], min(1.0, confidence)))
    return found


@torch.no_grad()
def teacher_forced_weights(
    decoder: Decoder, memory: Memory, tokens: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Let the decoder read a text that is already known, and watch where it looks.

    memory: of one utterance (B = 1). tokens: U ids without end-of-sentence.
    Returns weights (U + 1, T) and log-probabilities (U + 1,), end-of-sentence last, as a
    search that had chosen these tokens would have noted them. Put the decoder in eval mode first.

    Raises:
        ValueError: the memory is of several utterances.
    """
    if len(memory.values) != 1:
        raise ValueError(f"memory must be of one utterance, got {len(memory.values)}")
    expected = torch.tensor([*tokens, EOS], device=memory.values.device)
    previous = torch.cat([expected[-1:], expected[:-1]])[None]  # (1, U + 1)
    output = decoder(previous, memory)
    log_probabilities = torch.log_softmax(output.logits[0].float(), dim=-1)  # (U + 1, V)
    return output.weights[0], log_probabilities.gather(1, expected[:, None])[:, 0]


def _best_states(scores: Floats, tokens: Sequence[int]) -> NDArray[np.int64]:
    """State of each frame (T',) on the best path; 2u + 1 is token u, even ones are blanks."""
    labels = np.full(2 * len(tokens) + 1, BLANK)  # (S,)
    labels[1::2] = tokens
    may_skip = np.zeros(len(labels), dtype=bool)  # come from two states before
    may_skip[3::2] = labels[3::2] != labels[1:-2:2]
    emitted = scores[:, labels]  # (T', S)
    best = np.full(len(labels), -np.inf)
    best[:2] = emitted[0, :2]
    cames = np.zeros(emitted.shape, dtype=np.int8)  # how many states a frame moved on
    moves = np.full((3, len(labels)), -np.inf)
    for frame in range(1, len(scores)):
        moves[0] = best
        moves[1, 1:] = best[:-1]
        moves[2, 2:] = np.where(may_skip[2:], best[:-2], -np.inf)
        cames[frame] = moves.argmax(0)
        best = moves.max(0) + emitted[frame]
    state = len(labels) - 1 - int(best[-2] > best[-1])
    if not np.isfinite(best[state]):
        raise UserError("the CTC log-probabilities leave no path for this text")
    states = np.empty(len(scores), dtype=np.int64)
    for frame in range(len(scores) - 1, -1, -1):
        states[frame] = state
        state -= int(cames[frame, state])
    return states


def _centres(weights: Floats) -> Floats:
    """Place of each step (U,) in annotations: the mean of its weights next to the best path.

    The mean tells steps apart that share an annotation, and is finer than one.
    """
    steps, annotations = weights.shape
    path = np.array(monotone_path(weights))
    offsets = np.arange(-NEIGHBOURS, NEIGHBOURS + 1)
    near = path[:, None] + offsets  # (U, 1 + 2·NEIGHBOURS)
    inside = (near >= 0) & (near < annotations)
    rows = np.arange(steps)[:, None]
    shares = np.where(inside, weights[rows, near.clip(0, annotations - 1)], 0)
    moved = (shares * offsets).sum(1) / np.maximum(shares.sum(1), SMALLEST_WEIGHT)
    centres: Floats = np.maximum.accumulate(path + 0.5 + moved)
    return centres


def _extend(cores: Floats, reach: Reach, duration: float) -> list[tuple[float, float]]:
    """Draw cores (U, 2) in seconds out into the room between them."""
    starts, ends = cores[:, 0], cores[:, 1]
    middles = ends[:-1] + reach.share * (starts[1:] - ends[:-1])
    starts = np.maximum(starts - reach.back, np.concatenate([[0.0], middles]))
    ends = np.minimum(ends + reach.ahead, np.concatenate([middles, [np.inf]]))
    within = np.clip(np.stack([starts, ends], axis=1), 0, duration)
    return [(start, end) for start, end in within.tolist()]


def _numpy(values: Numbers) -> Floats:
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)
