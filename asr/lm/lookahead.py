"""Look-ahead: a word model that scores every character of a word, not only its end.

The possible completions of a prefix are a range of the sorted lexicon, over which the model sums
p(w | h). With S(prefix) for that sum

    p(character | prefix, h) = S(prefix + character) / S(prefix)

and the probability of the word itself goes to a space or the end of the text. Words outside the
lexicon share p(unknown | h), distributed by a character n-gram model. The two sums are added, so
that the model of texts is normalised. Source: Hori et al. 2018, "End-to-end speech recognition
with word-based RNN language models" (look-ahead), with a mixture for unknown words.

With a recurrent model, p is a mixture: the n-grams predict whether the text ends, and both models
predict the next word if it does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.errors import UserError
from asr.lm.arpa import is_arpa, read_arpa
from asr.lm.characters import NgramModel
from asr.lm.lexicon import Lexicon, spell
from asr.lm.ranges import NgramRanges
from asr.lm.recurrent import LoadStep, LSTMWords, RecurrentWords
from asr.lm.word_ngrams import Floats, Integers, WordNgrams
from asr.model_folder import CONFIG
from asr.search.contract import Booleans
from asr.search.trees import change, spread, take
from asr.text.vocabulary import BLANK, EOS, UNK, Vocabulary

SPELLING_ORDER = 5  # of the character n-grams of unknown words
RECURRENT_SHARE = 0.7  # weight of the recurrent model in the mixture
_LEAST = 1e-30  # lower bound of a probability


class _History(NamedTuple):
    """The finished words of F texts, as contexts of the next one; all arrays are (F, …).

    contexts: (F, order − 1), indices in the tables of the last word, the last two, …; −1 if they do
    not occur. goes_on: probability of another word. recurrent: a `RecurrentContext` each; None
    without a recurrent model.
    """

    contexts: Integers
    goes_on: Floats
    recurrent: NDArray[np.object_]


class _Texts(NamedTuple):
    """F texts; all arrays are (F, …).

    node: of the prefix in the lexicon. spelling: state of the character model. spelt: probability
    of an unknown word with this prefix. mass: probability of all completions.
    """

    history: _History
    node: Integers
    spelling: Integers
    spelt: Floats
    mass: Floats


class WordState(NamedTuple):
    """N texts for each of B utterances, and what follows from them; all arrays are (B, N, …).

    known: (B, N, V), probability of the words with this prefix and one more character; in the
    column of the blank, of the prefix as a word.
    after_word: contexts, as in `_History`, if the word ends here. ends: probability that the text
    then ends.
    log_probs: (B, N, V).
    """

    texts: _Texts
    known: Floats
    after_word: Integers
    ends: Floats
    log_probs: Floats


class WordModel:
    """Word n-grams, with or without a recurrent model, as a `LanguageModel` of characters."""

    def __init__(
        self, ngrams: WordNgrams, vocabulary: Vocabulary, recurrent: RecurrentWords | None = None
    ) -> None:
        """Make the model for a search over this vocabulary.

        recurrent: has weight `RECURRENT_SHARE` in the probability of the next word.

        Raises:
            UserError: the vocabulary is not one of characters with a space.
        """
        if vocabulary.kind != "characters" or vocabulary.encode(" ") == [UNK]:
            raise UserError(
                f"a word language model needs a vocabulary of characters with a space, but this "
                f"model has {vocabulary.kind}: leave the language model out"
            )
        (self._space,) = vocabulary.encode(" ")
        self._size = len(vocabulary)
        # The lexicon and the spelling take more memory while they are built than afterwards: first.
        self._lexicon = Lexicon(ngrams.words, vocabulary)
        spelt = spell(ngrams.words, vocabulary)
        self._spelling = NgramModel.train(spelt, len(vocabulary), SPELLING_ORDER)
        self._ngrams = NgramRanges(ngrams)
        self._recurrent = recurrent

    @classmethod
    def load(
        cls, path: Path | str, vocabulary: Vocabulary, load_step: LoadStep = LSTMWords.load
    ) -> WordModel:
        """Read word n-grams, and a recurrent model from the folder of the same name, if any.

        path: of the n-grams, or of a file in the ARPA format; the folder has its name without the
            suffix.
        load_step: see `RecurrentWords.load`.

        Raises:
            UserError: as `WordNgrams.load`, `read_arpa` and `RecurrentWords.load`.
        """
        ngrams = read_arpa(Path(path)) if is_arpa(Path(path)) else WordNgrams.load(path)
        folder = Path(path).with_suffix("")
        try:
            model = cls(ngrams, vocabulary)
        except UserError:
            raise
        except ValueError as error:  # words that are not sorted
            raise UserError(f"{path}: damaged: {error}") from error
        if (folder / CONFIG).is_file():  # read last and without the n-grams: a lower peak of memory
            words, unigrams = ngrams.words, ngrams.unigrams
            del ngrams
            model._recurrent = RecurrentWords.load(folder, words, unigrams, load_step)
        return model

    def start(self, batch: int) -> WordState:
        """See `LanguageModel.start`."""
        contexts = self._ngrams.start()
        history = _History(
            contexts=contexts,
            goes_on=1 - self._ngrams.p_end(contexts),
            recurrent=np.full(1, self._recurrent and self._recurrent.start(), dtype=np.object_),
        )
        texts = _Texts(
            history=history,
            node=np.zeros(1, np.int64),
            spelling=self._spelling.start(1)[0],
            spelt=self._unknown_word(history),
            mass=np.ones(1),
        )
        return change(lambda each: np.repeat(each[None], batch, axis=0), self._scored(texts))

    def log_probs(self, state: WordState) -> Floats:
        """See `LanguageModel.log_probs`."""
        return state.log_probs

    def advance(
        self,
        state: WordState,
        parents: Integers,
        tokens: Integers,
        alive: Booleans | None = None,
    ) -> WordState:
        """See `LanguageModel.advance`."""
        if alive is None:
            alive = np.ones(tokens.shape, np.bool_)
        at = np.nonzero(alive)[0], parents[alive]
        scored = self._scored(self._extended(state, at, tokens[alive]))
        return change(lambda each: spread(each, alive), scored)

    def _extended(
        self, state: WordState, at: tuple[Integers, Integers], tokens: Integers
    ) -> _Texts:
        """Append tokens (F,) to the texts with indices `at`, (F,) each, in a state."""
        texts = change(lambda each: each[at], state.texts)
        is_space = tokens == self._space
        spelt = texts.spelt * self._spelling.probabilities(texts.spelling, tokens)
        mass = state.known[(*at, tokens)] + spelt
        history = _History(
            contexts=np.where(is_space[:, None], state.after_word[at], texts.history.contexts),
            goes_on=np.where(is_space, 1 - state.ends[at], texts.history.goes_on),
            recurrent=texts.history.recurrent,
        )
        node = np.where(is_space, 0, self._lexicon.child(texts.node, tokens))
        spelling = self._spelling.follow(texts.spelling, tokens)
        ended = np.flatnonzero(is_space)
        if len(ended):
            if self._recurrent is not None:
                words = self._finished(texts.node[ended]).tolist()
                old = history.recurrent[ended].tolist()
                history.recurrent[ended] = self._recurrent.after(old, words)
            spelling[ended] = self._spelling.start(1)[0]
            spelt[ended] = self._unknown_word(take(history, ended))
            mass[ended] = history.goes_on[ended]
        return _Texts(history, node, spelling, spelt, np.maximum(mass, _LEAST))

    def _scored(self, texts: _Texts) -> WordState:
        """Compute the scores of the next characters of F texts."""
        node, within = texts.node, texts.node != 0
        known = self._known(texts)  # (F, V)
        after_word = self._ngrams.after(texts.history.contexts, self._finished(node))
        ends = self._ngrams.p_end(after_word)
        unknown = self._spelling.probabilities(texts.spelling) * texts.spelt[:, None]
        joint = known + unknown
        ending = known[:, BLANK] + unknown[:, EOS] + unknown[:, self._space]
        joint[:, self._space] = ending * (1 - ends * within)
        joint[:, EOS] = ending * ends * within
        is_empty = ~within & (texts.mass == 1)  # no character yet
        joint[:, EOS] += (1 - texts.history.goes_on) * is_empty
        joint[:, BLANK] = 0
        joint /= texts.mass[:, None]
        log_probs = np.log(np.clip(joint, _LEAST, 1.0, out=joint), out=joint)
        return WordState(texts, known, after_word, ends, log_probs)

    def _known(self, texts: _Texts) -> Floats:
        """Return `WordState.known` of F texts."""
        rows, characters, nodes = self._lexicon.continuations(texts.node)
        first = self._lexicon.first[nodes].astype(np.int64)
        after = self._lexicon.after[nodes].astype(np.int64)
        after = np.where(characters == BLANK, first + 1, after)
        known = np.zeros((len(texts.node), self._size))
        known[rows, characters] = self._words(texts.history, rows, first, after)
        return known

    def _finished(self, node: Integers) -> Integers:
        """Return the word (F,) that ends at each node, the unknown word if none does."""
        return np.where(self._lexicon.whole[node], self._lexicon.first[node], self._ngrams.unknown)

    def _unknown_word(self, history: _History) -> Floats:
        """Return the probability (F,) that the next word is unknown."""
        first = np.full(len(history.goes_on), self._ngrams.unknown)
        return self._words(history, np.arange(len(first)), first, first + 1)

    def _words(self, history: _History, rows: Integers, first: Integers, after: Integers) -> Floats:
        """Return the probability that the next word is one of first … after − 1, (P,).

        rows: (P,) ascending, the text of each range.
        """
        found = self._ngrams.range(history.contexts[rows], first, after)
        if self._recurrent is None:
            return found
        stops = np.searchsorted(rows, np.arange(len(history.goes_on)), side="right")
        own = self._recurrent.range(history.recurrent.tolist(), stops.tolist(), first, after)
        own *= history.goes_on[rows]
        return found + RECURRENT_SHARE * (own - found)
