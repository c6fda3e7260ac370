"""Pieces of audio → segments of text: encode, search, find the times.

The result of a piece does not depend on the other pieces of its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from asr.corpora.batching import batch_by_length
from asr.errors import UserError
from asr.inference.encoding import EncodedPieces, encode, seconds_of_speech
from asr.inference.loaded import LoadedModel
from asr.inference.options import DecodingOptions
from asr.inference.pieces import Piece
from asr.inference.plausibility import (
    SLOWEST_SPEECH,
    TextEvidence,
    is_doubtful,
    is_guess,
    is_slow_by_ctc,
    is_without_sound,
)
from asr.inference.segments import segment, silence
from asr.lm.lookahead import WordModel
from asr.results import Alternative, Segment, StopReason
from asr.search.beam import beam_search
from asr.search.contract import Scorer
from asr.search.ctc import CTCPrefixScorer
from asr.search.greedy import greedy
from asr.search.hotwords import HotwordScorer
from asr.search.hypothesis import Hypothesis
from asr.search.internal_model import InternalModelScorer
from asr.search.language_model import LanguageModelScorer
from asr.search.limits import step_limits

SECOND_SEARCH: Final[dict[str, Any]] = {"beam": 8, "ctc_weight": 0.5, "lm_weight": 0.0}


def decode_many(
    loaded: LoadedModel,
    pieces: Sequence[Piece],
    options: DecodingOptions,
    on_progress: Callable[[float], object] | None = None,
) -> list[Segment]:
    """Decode pieces in batches of similar length; on_progress: gets the seconds of each batch."""
    found: dict[int, Segment] = {}
    durations = [piece.duration for piece in pieces]
    for batch in batch_by_length(durations, options.batch_seconds):
        decoded = decode(loaded, [pieces[index] for index in batch], options)
        found.update(zip(batch, decoded, strict=True))
        if on_progress is not None:
            on_progress(sum(durations[index] for index in batch))
    return [found[index] for index in range(len(pieces))]


def decode(loaded: LoadedModel, pieces: Sequence[Piece], options: DecodingOptions) -> list[Segment]:
    """Decode a batch; pieces without speech are not encoded and have no text."""
    found = [silence(piece) for piece in pieces]
    spoken = [index for index, piece in enumerate(pieces) if not piece.is_silent]
    if not spoken:
        return found
    heard = [pieces[index] for index in spoken]
    encoded = encode(loaded, heard, options.fastest)
    for index, each in zip(spoken, search_encoded(loaded, heard, encoded, options), strict=True):
        found[index] = each
    return found


def search_encoded(
    loaded: LoadedModel, pieces: Sequence[Piece], encoded: EncodedPieces, options: DecodingOptions
) -> list[Segment]:
    """Decode a batch that is encoded already; noise has no text."""
    if not loaded.is_calibrated_for(options):
        loaded = loaded.uncalibrated()
    hypotheses, again = _search_twice(loaded, pieces, encoded, options)
    alternatives: list[tuple[Alternative, ...]] = [()] * len(pieces)
    if options.n_best > 1:
        alternatives = _alternatives(loaded, encoded, options, hypotheses, again)
    decoded = []
    for row, (piece, hypothesis) in enumerate(zip(pieces, hypotheses, strict=True)):
        found = _spoken(loaded, piece, encoded, row, hypothesis, options)
        decoded.append(replace(found, alternatives=alternatives[row]) if found else silence(piece))
    return decoded


def _spoken(
    loaded: LoadedModel,
    piece: Piece,
    encoded: EncodedPieces,
    row: int,
    hypothesis: Hypothesis,
    options: DecodingOptions,
) -> Segment | None:
    """Return the segment of a hypothesis, or None if its text was read from noise or guessed."""
    ctc = encoded.ctc_of(row)
    has_words = _language_model(loaded, options) is not None
    noise_threshold = options.noise_threshold if has_words else -np.inf
    if _is_read_from_noise(piece, hypothesis, ctc, noise_threshold):
        return None
    english = None
    if loaded.plausibility is not None and ctc is not None and hypothesis.tokens:
        english = loaded.plausibility(TextEvidence.of(hypothesis, ctc))
    doubtful = is_doubtful(hypothesis, ctc, english)
    found = segment(loaded, piece, encoded, row, hypothesis, loaded.calibration)
    seconds = seconds_of_speech(piece)
    if loaded.calibration and is_guess(
        found.words, seconds, is_cut=piece.is_cut, is_doubtful=doubtful
    ):
        return None
    return replace(found, english=english, low_confidence=doubtful)


def force(loaded: LoadedModel, piece: Piece, tokens: list[int], fastest: float = 0.0) -> Segment:
    """Align a known text with a piece; fastest: see `DecodingOptions`.

    Raises:
        UserError: the text is longer than a hypothesis may be.
    """
    encoded = encode(loaded, [piece], fastest)
    if len(tokens) > int(step_limits(encoded.seconds)[0]):
        raise UserError(
            f"a text of {len(tokens)} characters for {piece.duration:.1f} s of audio is more "
            "than anybody speaks; is it the text of another recording?"
        )
    return force_encoded(loaded, piece, encoded, tokens)


def force_encoded(
    loaded: LoadedModel, piece: Piece, encoded: EncodedPieces, tokens: list[int]
) -> Segment:
    """Align a known text of any length with a piece that is encoded already, alone in its batch."""
    weights, log_probabilities = loaded.engine.force(encoded.memory, tokens)
    summands = log_probabilities.tolist()
    hypothesis = Hypothesis(tokens, sum(summands), weights, StopReason.EOS, summands)
    return segment(loaded, piece, encoded, 0, hypothesis)


def _search_twice(
    loaded: LoadedModel, pieces: Sequence[Piece], encoded: EncodedPieces, options: DecodingOptions
) -> tuple[list[Hypothesis], set[int]]:
    """Return the best hypothesis of each piece, and the rows of those that a second search found.

    A piece is searched again if there is no sound under its best hypothesis. The second search has
    no language model and a higher weight of CTC, which neither repeats nor skips. If it fails too,
    the first hypothesis is kept.
    """
    first = _search(loaded, encoded, options)
    rows = [row for row, each in enumerate(first) if is_without_sound(each, encoded.ctc_of(row))]
    if not rows or encoded.ctc is None:
        return first, set()
    again = encode(loaded, [pieces[row] for row in rows], options.fastest)
    replaced = {
        rows[at]: found
        for at, found in enumerate(_search(loaded, again, replace(options, **SECOND_SEARCH)))
        if not is_without_sound(found, again.ctc_of(at))
    }
    return [replaced.get(row, each) for row, each in enumerate(first)], set(replaced)


def _search(
    loaded: LoadedModel, encoded: EncodedPieces, options: DecodingOptions
) -> list[Hypothesis]:
    """Return the best hypothesis of each piece."""
    if options.beam == 1:
        decoder = loaded.engine.decoder(encoded.memory)
        return greedy(decoder, step_limits(encoded.seconds), options.search.guard)
    return [best for best, *_ in _beam_search(loaded, encoded, options, 1)]


def _beam_search(
    loaded: LoadedModel, encoded: EncodedPieces, options: DecodingOptions, best: int
) -> list[list[Hypothesis]]:
    """Return the `best` hypotheses of each piece."""
    decoder = loaded.engine.decoder(encoded.memory)
    words = _language_model(loaded, options)
    scorers = _scorers(loaded, encoded, options, words)
    search = options.search
    if words is not None:
        search = replace(search, length_bonus=options.lm_bonus)
    found = beam_search(decoder, step_limits(encoded.seconds), search, scorers, best)
    return [[_without_bonus(loaded, each, options) for each in its] for its in found]


def _alternatives(
    loaded: LoadedModel,
    encoded: EncodedPieces,
    options: DecodingOptions,
    chosen: Sequence[Hypothesis],
    again: Collection[int],
) -> list[tuple[Alternative, ...]]:
    """Return the n best texts of each piece, the chosen one first, the others by score.

    Another search finds them: recombination, which the first one may use, keeps hypotheses alone
    that end differently. So the transcript does not depend on the number of alternatives.
    again: rows of the second search, which weights scores in another way; they have no others.
    """
    found = []
    searched = _beam_search(loaded, encoded, replace(options, recombine=0), options.n_best)
    for row, (best, its) in enumerate(zip(chosen, searched, strict=True)):
        others = [] if row in again else sorted(its, key=lambda each: -each.score)
        ranked: dict[str, Alternative] = {}  # a space more makes no other text
        for each in (best, *others):
            text = " ".join(loaded.vocabulary.decode(each.tokens).split())
            ranked.setdefault(text, Alternative(text, each.score, each.log_probability))
        found.append(tuple(ranked.values())[: options.n_best])
    return found


def _without_bonus(loaded: LoadedModel, found: Hypothesis, options: DecodingOptions) -> Hypothesis:
    """Subtract the bonus of favoured words from the score, for which confidence is calibrated."""
    if loaded.hotwords is None:
        return found
    bonus = options.hotword_weight * loaded.hotwords.characters(found.tokens)
    return found._replace(score=found.score - bonus)


def _scorers(
    loaded: LoadedModel,
    encoded: EncodedPieces,
    options: DecodingOptions,
    words: WordModel | None,
) -> list[Scorer]:
    """Return the scorers of a search, without the decoder."""
    without_audio = None
    if words is not None and options.ilm_weight:
        without_audio = loaded.engine.decoder_without_audio(encoded.memory)
    scorers: list[Scorer] = []
    if encoded.ctc is not None and options.ctc_weight:
        scorers.append(CTCPrefixScorer(encoded.ctc, encoded.ctc_lengths, options.ctc_weight))
    if words is not None:
        scorers.append(LanguageModelScorer(words, options.lm_weight))
        if options.word_penalty:
            scorers.append(loaded.word_penalty(options.word_penalty))
    if without_audio is not None:
        scorers.append(InternalModelScorer(without_audio, options.ilm_weight))
    if loaded.hotwords is not None:
        scorers.append(HotwordScorer(loaded.hotwords, options.hotword_weight))
    return scorers


def _language_model(loaded: LoadedModel, options: DecodingOptions) -> WordModel | None:
    """Return the language model if the search uses one."""
    return loaded.language_model if options.beam > 1 and options.lm_weight else None


def _is_read_from_noise(
    piece: Piece, found: Hypothesis, ctc: NDArray[np.float32] | None, noise_threshold: float
) -> bool:
    """Return whether a text was read from noise.

    That is: it is slower than speech, and the decoder's score below a threshold; or its piece was
    cut out of a longer recording, and CTC finds less in it than the slowest speech.
    """
    seconds = seconds_of_speech(piece)
    slow = len(found.tokens) < SLOWEST_SPEECH * seconds
    if slow and found.log_probability < noise_threshold * (len(found.tokens) + 1):
        return True
    return piece.is_cut and is_slow_by_ctc(ctc, seconds)
