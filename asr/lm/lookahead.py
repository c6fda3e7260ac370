"""A word n-gram model that scores letters: what a word may become counts from its first letter.

While a word is spelt, what it may become are the words with that beginning, neighbours in a
sorted lexicon; the model sums p(w | h) over them. So with S(beginning) for that sum

    p(letter | beginning, h) = S(beginning + letter) / S(beginning)

and a space or the end of the text after a whole word takes what is left. Words that are not in
the lexicon share p(unknown | h), spelt by a model of letters; the two sums are added, so that the
whole is a proper model of texts. Source: Hori et al. 2018, "End-to-end speech recognition with
word-based RNN language models" (look-ahead), with a mixture for unknown words.

Where there is a recurrent model too, p is a mixture: the n-grams say whether the text ends, and
both which word comes if it does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.errors import UserError
from asr.lm.characters import NgramModel
from asr.lm.lexicon import Lexicon
from asr.lm.recurrent import RecurrentContext, RecurrentWords
from asr.lm.word_ngrams import SPECIAL_WORDS, Table, WordNgrams
from asr.models.folder import CONFIG
from asr.search.hypothesis import change, reorder
from asr.text.vocabulary import BLANK, EOS, UNK, Vocabulary

SPELLING_ORDER = 5  # of the model of unknown words' letters
RECURRENT_SHARE = 0.6  # of the mixture
_LEAST = 1e-30  # probability below which all is alike


class History(NamedTuple):
    """The words up to the last space of N texts of each of B utterances.

    contexts: (B, N, order − 1), the last word, the last two, …, as places in the tables; −1 if
    never seen. goes_on: (B, N), probability that there is another word.
    recurrent: (B, N, …), or nothing where there is no recurrent model.
    """

    contexts: Tensor
    goes_on: Tensor
    recurrent: RecurrentContext | tuple[()]


class WordState(NamedTuple):
    """Where N texts of each of B utterances stand; all (B, N).

    node: of the beginning in the lexicon. spelling: state of the model of letters.
    spelt: probability that an unknown word begins so. mass: of all that the word may become.
    """

    history: History
    node: Tensor
    spelling: Tensor
    spelt: Tensor
    mass: Tensor


class WordModel:
    """Word n-grams as a `LanguageModel` for a search that writes letters."""

    def __init__(
        self, ngrams: WordNgrams, vocabulary: Vocabulary, recurrent: RecurrentWords | None = None
    ) -> None:
        """Make the model for a search that writes with this vocabulary.

        recurrent: has a share of `RECURRENT_SHARE` in what is said of the next word.

        Raises:
            UserError: the vocabulary is not one of letters with a space.
        """
        if vocabulary.kind != "characters" or vocabulary.encode(" ") == [UNK]:
            raise UserError(
                f"a word language model scores letters and spaces, but this model writes "
                f"{vocabulary.kind}: leave the language model out"
            )
        (self._space,) = vocabulary.encode(" ")
        self._size = len(vocabulary)
        self._lexicon = Lexicon(ngrams.words, vocabulary)
        spelt = [vocabulary.encode(word) for word in ngrams.words]
        self._spelling = NgramModel.train(spelt, self._size, SPELLING_ORDER)
        words = len(ngrams.words)
        self._end, self._start, self._unknown = words, words + 1, words + 2
        every = np.arange(words + SPECIAL_WORDS)
        self._tables = [_sums(every, ngrams.unigrams)]
        self._tables += [_sums(table.codes, table.explicit) for table in ngrams.tables]
        contexts = [len(table.codes) for table in self._tables[:-1]]
        self._rest = [
            _rest(table, words + SPECIAL_WORDS, count)
            for table, count in zip(ngrams.tables, contexts, strict=True)
        ]
        self._recurrent = recurrent

    @classmethod
    def load(cls, path: Path | str, vocabulary: Vocabulary) -> WordModel:
        """Read word n-grams; with them a recurrent model, where its folder is beside them.

        That folder has the name of the file without its suffix.

        Raises:
            UserError: as `WordNgrams.load` and `RecurrentWords.load`.
        """
        ngrams, folder = WordNgrams.load(path), Path(path).with_suffix("")
        recurrent = RecurrentWords.load(folder, ngrams) if (folder / CONFIG).is_file() else None
        return cls(ngrams, vocabulary, recurrent)

    def start(self, batch: int) -> WordState:
        """See `LanguageModel.start`."""
        empty = torch.full((1, 1, len(self._tables) - 1), -1)
        contexts = self._after(empty, torch.full((1, 1), self._start))
        recurrent: RecurrentContext | tuple[()] = ()
        if self._recurrent is not None:
            recurrent = change(lambda each: each[None], self._recurrent.start())
        history = History(contexts, 1 - self._p_end(contexts), recurrent)
        nothing = torch.zeros(1, 1, dtype=torch.long)
        state = WordState(
            history=history,
            node=nothing,
            spelling=self._spelling.start(1),
            spelt=self._unknown_word(history),
            mass=torch.ones(1, 1, dtype=torch.float64),
        )
        return change(lambda each: each.expand(batch, *each.shape[1:]), state)

    def log_probs(self, state: WordState) -> Tensor:
        """See `LanguageModel.log_probs`: (B, N, V), float64."""
        nodes = self._lexicon.children[state.node]  # (B, N, V)
        first, after = self._lexicon.first[nodes], self._lexicon.after[nodes]
        known = self._words(state.history, first, after)
        unknown = self._spelling.log_probs(state.spelling).double().exp() * state.spelt[..., None]
        joint = known + unknown
        word = self._finished(state)
        whole = self._words(state.history, word[..., None], word[..., None] + 1)[..., 0]
        whole *= self._lexicon.whole[state.node]
        ending = whole + unknown[..., EOS] + unknown[..., self._space]
        within = state.node != 0
        ends = self._p_end(self._after(state.history.contexts, word)) * within
        joint[..., self._space] = ending * (1 - ends)
        joint[..., EOS] = ending * ends
        nothing_written = ~within & (state.mass == 1)
        joint[..., EOS] += (1 - state.history.goes_on) * nothing_written
        joint[..., BLANK] = 0
        return (joint / state.mass[..., None]).clamp_(_LEAST, 1.0).log_()

    def advance(self, state: WordState, parents: Tensor, tokens: Tensor) -> WordState:
        """See `LanguageModel.advance`."""
        old = reorder(state, parents)
        between = tokens == self._space
        history = self._after_word(old, between)
        node = self._lexicon.children[old.node].gather(-1, tokens[..., None])[..., 0]
        node = node.masked_fill(between, 0)
        letter = self._spelling.log_probs(old.spelling).gather(-1, tokens[..., None])[..., 0]
        here = torch.arange(tokens.size(1), device=tokens.device).expand_as(tokens)
        spelling = self._spelling.advance(old.spelling, here, tokens)
        spelt = old.spelt * letter.double().exp()
        spelt = torch.where(between, self._unknown_word(history), spelt)
        first, after = self._lexicon.first[node], self._lexicon.after[node]
        known = self._words(history, first[..., None], after[..., None])[..., 0]
        return WordState(
            history=history,
            node=node,
            spelling=torch.where(between, self._spelling.start(1), spelling),
            spelt=spelt,
            mass=torch.where(between, history.goes_on, known + spelt).clamp_min(_LEAST),
        )

    def _after_word(self, state: WordState, ended: Tensor) -> History:
        """Return the histories with the words that have `ended` (B, N) taken in."""
        word, old = self._finished(state), state.history
        contexts = torch.where(ended[..., None], self._after(old.contexts, word), old.contexts)
        recurrent = old.recurrent
        if recurrent and self._recurrent is not None and bool(ended.any()):
            at = change(lambda each: each[ended], recurrent)
            new = self._recurrent.after(at, word[ended])
            change(lambda each, own: each.index_put_((ended,), own), recurrent, new)  # its own copy
        return History(contexts, 1 - self._p_end(contexts), recurrent)

    def _finished(self, state: WordState) -> Tensor:
        """Return the word (B, N) that a space would end."""
        whole = self._lexicon.whole[state.node]
        return torch.where(whole, self._lexicon.first[state.node], self._unknown)

    def _unknown_word(self, history: History) -> Tensor:
        """Return the probability (B, N) that the next word is unknown."""
        unknown = torch.full((*history.goes_on.shape, 1), self._unknown)
        return self._words(history, unknown, unknown + 1)[..., 0]

    def _p_end(self, contexts: Tensor) -> Tensor:
        """Return the probability that the text ends after these contexts."""
        end = torch.full(contexts.shape[:-1], self._end)
        return self._range(contexts, end, end + 1)

    def _words(self, history: History, first: Tensor, after: Tensor) -> Tensor:
        """Return the probability of the next word being one of first … after − 1, (B, N, R)."""
        contexts = history.contexts[:, :, None].expand(-1, -1, first.size(-1), -1)
        found = self._range(contexts, first, after)
        if not history.recurrent or self._recurrent is None:
            return found
        own = self._recurrent.range(history.recurrent, first, after) * history.goes_on[..., None]
        return torch.lerp(found, own, RECURRENT_SHARE)

    def _range(self, contexts: Tensor, first: Tensor, after: Tensor) -> Tensor:
        """Return Σ p(w | h) of the n-grams, words first … after − 1; contexts (…, order − 1)."""
        sums = self._tables[0].sums
        total = sums[after] - sums[first]
        for order in range(1, len(self._tables)):
            context = contexts[..., order - 1]
            seen = context >= 0
            place = context.clamp_min(0)
            explicit = self._explicit(order, place, first, after)
            total = torch.where(seen, explicit + self._rest[order - 1][place] * total, total)
        return total

    def _explicit(self, order: int, context: Tensor, first: Tensor, after: Tensor) -> Tensor:
        """Return the explicit probability of a range of words after contexts of `order` words."""
        table, base = self._tables[order], context * (self._unknown + 1)
        begin = torch.searchsorted(table.codes, base + first)
        end = torch.searchsorted(table.codes, base + after)
        return table.sums[end] - table.sums[begin]

    def _after(self, contexts: Tensor, word: Tensor) -> Tensor:
        """Return the contexts (…, order − 1) once a word (…) has been written."""
        new = [word]
        for order in range(1, len(self._tables) - 1):
            codes = self._tables[order].codes
            code = contexts[..., order - 1] * (self._unknown + 1) + word
            place = torch.searchsorted(codes, code).clamp_max(len(codes) - 1)
            seen = (contexts[..., order - 1] >= 0) & (codes[place] == code)
            new.append(torch.where(seen, place, -1))
        return torch.stack(new, -1)


class _Sums(NamedTuple):
    """Sorted codes (n,) of n-grams, and sums (n + 1,) of the probabilities before each."""

    codes: Tensor
    sums: Tensor


def _sums(codes: NDArray[np.int64], probabilities: NDArray[np.float64]) -> _Sums:
    sums = np.concatenate([[0.0], np.cumsum(probabilities)])
    return _Sums(torch.from_numpy(codes), torch.from_numpy(sums))


def _rest(table: Table, size: int, contexts: int) -> Tensor:
    """Return what is not explicit after each context (contexts,); size: words in all."""
    explicit = np.bincount(table.codes // size, weights=table.explicit, minlength=contexts)
    return torch.from_numpy(1 - explicit)
