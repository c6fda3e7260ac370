"""A word n-gram model that scores letters: what a word may become counts from its first letter.

While a word is spelt, what it may become are the words with that beginning, neighbours in a
sorted lexicon; the model sums p(w | h) over them. So with S(beginning) for that sum

    p(letter | beginning, h) = S(beginning + letter) / S(beginning)

and a space or the end of the text after a whole word takes what is left. Words that are not in
the lexicon share p(unknown | h), spelt by a model of letters; the two sums are added, so that the
whole is a proper model of texts. Source: Hori et al. 2018, "End-to-end speech recognition with
word-based RNN language models" (look-ahead), with a mixture for unknown words.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.errors import UserError
from asr.search.lexicon import Lexicon
from asr.search.ngram import NgramModel
from asr.search.word_ngrams import SPECIAL_WORDS, Table, WordNgrams
from asr.text.vocabulary import BLANK, EOS, UNK, Vocabulary

SPELLING_ORDER = 5  # of the model of unknown words' letters
_LEAST = 1e-30  # probability below which all is alike


class WordState(NamedTuple):
    """Where N texts of each of B utterances stand; all (B, N) but contexts, (B, N, order − 1).

    contexts: the last word, the last two, …, as places in the tables; −1 if never seen.
    node: of the beginning in the lexicon. spelling: state of the model of letters.
    spelt: probability that an unknown word begins so. mass: of all that the word may become.
    """

    contexts: Tensor
    node: Tensor
    spelling: Tensor
    spelt: Tensor
    mass: Tensor


class WordModel:
    """Word n-grams as a `LanguageModel` for a search that writes letters."""

    def __init__(self, ngrams: WordNgrams, vocabulary: Vocabulary) -> None:
        """Make the model for a search that writes with this vocabulary.

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

    @classmethod
    def load(cls, path: Path | str, vocabulary: Vocabulary) -> WordModel:
        """Read word n-grams; see `WordNgrams.load`."""
        return cls(WordNgrams.load(path), vocabulary)

    def start(self, batch: int) -> WordState:
        """See `LanguageModel.start`."""
        empty = torch.full((batch, 1, len(self._tables) - 1), -1)
        contexts = self._after(empty, torch.full((batch, 1), self._start))
        return self._at_word(contexts)._replace(mass=torch.ones(batch, 1, dtype=torch.float64))

    def log_probs(self, state: WordState) -> Tensor:
        """See `LanguageModel.log_probs`: (B, N, V), float64."""
        nodes = self._lexicon.children[state.node]  # (B, N, V)
        contexts = state.contexts[:, :, None].expand(-1, -1, self._size, -1)
        known = self._range(contexts, self._lexicon.first[nodes], self._lexicon.after[nodes])
        unknown = self._spelling.log_probs(state.spelling).double().exp() * state.spelt[..., None]
        joint = known + unknown
        word, whole = self._finished(state)
        ending = whole + unknown[..., EOS] + unknown[..., self._space]
        within = state.node != 0
        ends = self._p_end(self._after(state.contexts, word)) * within
        joint[..., self._space] = ending * (1 - ends)
        joint[..., EOS] = ending * ends
        nothing_written = ~within & (state.mass == 1)
        joint[..., EOS] += self._p_end(state.contexts) * nothing_written
        joint[..., BLANK] = 0
        return (joint / state.mass[..., None]).clamp_(_LEAST, 1.0).log_()

    def advance(self, state: WordState, parents: Tensor, tokens: Tensor) -> WordState:
        """See `LanguageModel.advance`."""
        old = WordState(
            state.contexts.gather(1, parents[..., None].expand(-1, -1, state.contexts.size(-1))),
            *(each.gather(1, parents) for each in state[1:]),
        )
        word, _ = self._finished(old)
        next_word = self._at_word(self._after(old.contexts, word))
        node = self._lexicon.children[old.node].gather(-1, tokens[..., None])[..., 0]
        letter = self._spelling.log_probs(old.spelling).gather(-1, tokens[..., None])[..., 0]
        spelt = old.spelt * letter.double().exp()
        here = torch.arange(tokens.size(1), device=tokens.device).expand_as(tokens)
        known = self._range(old.contexts, self._lexicon.first[node], self._lexicon.after[node])
        same_word = WordState(
            contexts=old.contexts,
            node=node,
            spelling=self._spelling.advance(old.spelling, here, tokens),
            spelt=spelt,
            mass=(known + spelt).clamp_min(_LEAST),
        )
        between = tokens == self._space
        return WordState(
            torch.where(between[..., None], next_word.contexts, same_word.contexts),
            *(
                torch.where(between, new, same)
                for new, same in zip(next_word[1:], same_word[1:], strict=True)
            ),
        )

    def _at_word(self, contexts: Tensor) -> WordState:
        """Return the state before the first letter of a word."""
        shape = contexts.shape[:-1]
        node = torch.zeros(shape, dtype=torch.long)
        unknown = torch.full(shape, self._unknown)
        return WordState(
            contexts=contexts,
            node=node,
            spelling=self._spelling.start(1).expand(shape),
            spelt=self._range(contexts, unknown, unknown + 1),
            mass=(1 - self._p_end(contexts)).clamp_min(_LEAST),
        )

    def _finished(self, state: WordState) -> tuple[Tensor, Tensor]:
        """Return the word (B, N) that a space would end, and its probability if it is known."""
        first = self._lexicon.first[state.node]
        known = self._lexicon.whole[state.node]
        probability = self._range(state.contexts, first, first + 1) * known
        return torch.where(known, first, self._unknown), probability

    def _p_end(self, contexts: Tensor) -> Tensor:
        """Return the probability that the text ends after these contexts."""
        end = torch.full(contexts.shape[:-1], self._end)
        return self._range(contexts, end, end + 1)

    def _range(self, contexts: Tensor, first: Tensor, after: Tensor) -> Tensor:
        """Return Σ p(w | h) over the words first … after − 1; contexts (…, order − 1)."""
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
