"""A recurrent language model beside word n-grams: what it gives to whole ranges of words.

After each word its probabilities are summed up in the order of the lexicon, so that those of all
words with one beginning are one difference. Words that it does not know share what it gives to
the unknown one, as frequent as the n-grams have them. It says nothing of where a text ends.
Source: Hori et al. 2018, "End-to-end speech recognition with word-based RNN language models".
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from asr.lm.word_ngrams import WordNgrams
from asr.models.folder import load_weights, read_folder
from asr.models.language import LanguageState, RecurrentLanguageModel, build_language_model
from asr.models.settings import LanguageSettings
from asr.search.hypothesis import change
from asr.tables import from_table
from asr.text.vocabulary import EOS, UNK, Vocabulary

_STEP = 6364136223846793005  # of a linear congruential generator of 64 bits (Knuth)


class RecurrentContext(NamedTuple):
    """All words so far of texts in any shape (…).

    key: (…), a number for these words. state: both (…, H). sums: (…, K + 1), of the probabilities
    before each of the K words that lexicon and model share, in the lexicon's order.
    unknown: (…), probability of all other words.
    """

    key: Tensor
    state: LanguageState
    sums: Tensor
    unknown: Tensor


class RecurrentWords:
    """A `RecurrentLanguageModel` that speaks of the words of a `WordNgrams`, by their numbers."""

    def __init__(
        self, model: RecurrentLanguageModel, vocabulary: Vocabulary, ngrams: WordNgrams
    ) -> None:
        """Match the words of both; vocabulary: the model's."""
        self._model = model.eval()
        ids = torch.tensor([*(vocabulary.encode(word)[0] for word in ngrams.words), EOS, EOS, UNK])
        known = (ids != UNK) & (ids != EOS)
        self._ids, self._shared = ids, ids[known]
        self._places = pad(known.cumsum(0), (1, 0))  # (W + 4,), shared words before each
        others = torch.from_numpy(ngrams.unigrams) * (ids == UNK)
        self._others = pad((others / others.sum()).cumsum(0), (1, 0))  # (W + 4,)

    @classmethod
    def load(cls, folder: Path, ngrams: WordNgrams) -> RecurrentWords:
        """Read a model folder.

        Raises:
            UserError: it is not one of a language model, or is damaged.
        """
        read = read_folder(folder, "language")
        vocabulary = Vocabulary.from_json(read.vocabularies["words"])
        settings = from_table(LanguageSettings, read.model)
        model = build_language_model(settings, len(vocabulary))
        load_weights(model, folder)
        return cls(model, vocabulary, ngrams)

    def start(self) -> RecurrentContext:
        """Return the context at the start of one text, (1, …)."""
        return self._read(torch.tensor([EOS]), torch.zeros(1).long(), self._model.start(1))

    def after(self, context: RecurrentContext, words: Tensor) -> RecurrentContext:
        """Return the contexts (n, …) once a word (n,), by its number, has been written in each.

        Many hypotheses have the same words behind them; each such text is read once.
        """
        keys, place = (context.key * _STEP + words).unique(return_inverse=True)  # wraps around
        some = torch.zeros_like(keys).scatter_(0, place, torch.arange(len(words)))
        state = change(lambda each: each[some], context.state)
        return change(lambda each: each[place], self._read(self._ids[words[some]], keys, state))

    def range(self, context: RecurrentContext, first: Tensor, after: Tensor) -> Tensor:
        """Return Σ p(w) over the words first … after − 1, (…, R) for each context."""
        known = context.sums.gather(-1, self._places[after])
        known = (known - context.sums.gather(-1, self._places[first])).clamp_min_(0)
        return known + context.unknown[..., None] * (self._others[after] - self._others[first])

    @torch.no_grad()
    def _read(self, ids: Tensor, keys: Tensor, state: LanguageState) -> RecurrentContext:
        log_probs, state = self._model.step(ids, state)
        sums = pad(log_probs.exp()[:, self._shared].double().cumsum(-1), (1, 0))
        return RecurrentContext(keys, state, sums.float(), (1 - sums[:, -1]).clamp_min_(0))
