"""BLEU and chrF by sacrebleu with their signatures; BLEU on words without sacrebleu."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from asr.errors import UserError, install_command
from asr.render.tables import text_table
from asr.text.scripts import has_kana, is_unspaced, split_words

LENGTHS: Final = (10, 20, 30, 40, 50)  # source words: the upper ends of the length buckets
SPACED: Final = "13a"  # tokenisation of sacrebleu for languages with spaces
ORDER: Final = 4  # highest n-gram order of corpus BLEU


class Bucket(NamedTuple):
    """Sentences with sources of similar length, and their corpus BLEU (see `Bleu`)."""

    name: str
    sentences: int
    bleu: float
    lowercase: float


@dataclass(frozen=True)
class Bleu:
    """Corpus BLEU, 0 to 100, in two conventions.

    `bleu` is the figure to publish, with `signature`: cased, on plain text, tokenised by sacrebleu.
    `lowercase` is the figure of older papers: lower-cased and split at white space only, so it is
    comparable only if both sides are tokenised. Chinese is tokenised into characters in both.
    """

    bleu: float
    signature: str
    lowercase: float
    lowercase_signature: str
    length_ratio: float  # hypothesis words / reference words, after tokenisation
    by_length: tuple[Bucket, ...]  # words in the source; empty without sources


def score(
    references: Sequence[str | Sequence[str]],
    hypotheses: Sequence[str],
    sources: Sequence[str] | None = None,
    lengths: Sequence[int] = LENGTHS,
    own: bool = False,
) -> Bleu:
    """Score translations against their references (Papineni et al. 2002; Post 2018).

    references: one or several texts for each sentence; the number may differ between sentences.
    Texts are expected detokenised and cased. With `sources`, BLEU is also computed by source
    length, which shows whether quality degrades on long sentences.
    lengths: upper ends of the length buckets in words, ascending; a last bucket holds the rest.
    own: compute BLEU without sacrebleu, on words split at white space in both conventions. The
        lower-cased figure is the same; the cased figure is not comparable with sacrebleu's.

    Raises UserError if the numbers of sentences differ, there are no sentences, one has no
    reference, or sacrebleu is missing and `own` is false.
    """
    for name, texts in (("hypotheses", hypotheses), ("sources", sources)):
        if texts is not None and len(texts) != len(references):
            raise UserError(
                f"got {len(references)} references and {len(texts)} {name}; the numbers must match"
            )
    if not references:
        raise UserError("nothing to score: got no sentences")
    wanted = [(each,) if isinstance(each, str) else tuple(each) for each in references]
    if not all(wanted):
        raise UserError(f"sentence {wanted.index(()) + 1} has no reference")
    tokens = _tokenizer(text for each in wanted for text in each)
    cased, lowercase = metrics = _own_metrics(tokens) if own else _metrics(tokens)
    found, lowered = (each.corpus_score(hypotheses, _streams(wanted)) for each in metrics)
    return Bleu(
        bleu=found.score,
        signature=str(cased.get_signature()),
        lowercase=lowered.score,
        lowercase_signature=str(lowercase.get_signature()),
        length_ratio=found.sys_len / max(found.ref_len, 1),
        by_length=()
        if sources is None
        else _by_length(metrics, wanted, hypotheses, sources, lengths),
    )


def sentence_bleu(reference: str, hypothesis: str) -> float:
    """Return the BLEU of one sentence, 0 to 100, cased, on plain text, for use in training.

    N-gram orders longer than the hypothesis are left out; counts of 0 are smoothed.

    Raises UserError if sacrebleu is missing.
    """
    metric = _sentence_metric(_tokenizer([reference]))
    found: float = metric.sentence_score(hypothesis, [reference]).score
    return found


def has_sacrebleu() -> bool:
    """Return whether sacrebleu is installed."""
    try:
        _metric()
    except UserError:
        return False
    return True


def chrf(references: Sequence[Sequence[str]], hypotheses: Sequence[str]) -> tuple[float, str]:
    """Return corpus chrF2, 0 to 100, and its signature (Popović 2015).

    references: one or several per sentence. Raises UserError if sacrebleu is missing.
    """
    _metric()  # raises
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    streams: Any = _streams([tuple(each) for each in references])  # None if a sentence has fewer
    found = metric.corpus_score(list(hypotheses), streams)
    return float(found.score), str(metric.get_signature())


def report(result: Bleu) -> str:
    """Return the result as readable text."""
    lines = [
        f"BLEU {result.bleu:.2f}  {result.signature}",
        f"BLEU {result.lowercase:.2f}  {result.lowercase_signature}",
        f"hypotheses are {result.length_ratio:.3f} times as long as the references",
    ]
    if result.by_length:
        header = ("source words", "sentences", "BLEU", "lower-cased")
        lines += ["", text_table(header, result.by_length)]
    return "\n".join(lines)


def _streams(references: Sequence[tuple[str, ...]]) -> list[list[str | None]]:
    """Return for each n the n-th reference of every sentence; None if a sentence has fewer."""
    return [list(each) for each in zip_longest(*references)]


def _by_length(
    metrics: tuple[Any, Any],
    references: Sequence[tuple[str, ...]],
    hypotheses: Sequence[str],
    sources: Sequence[str],
    lengths: Sequence[int],
) -> tuple[Bucket, ...]:
    buckets = []
    for low, high in zip((0, *lengths), (*lengths, None), strict=True):
        inside = [
            i
            for i, source in enumerate(sources)
            if low < max(1, len(split_words(source))) <= (high or float("inf"))
        ]
        if inside:
            output = [hypotheses[i] for i in inside]
            wanted = _streams([references[i] for i in inside])
            name = f"{low + 1} to {high}" if high else f"over {low}"
            figures = [metric.corpus_score(output, wanted).score for metric in metrics]
            buckets.append(Bucket(name, len(inside), *figures))
    return tuple(buckets)


def _tokenizer(references: Iterable[str]) -> str:
    """Return the tokenisation of sacrebleu for the script of most references."""
    texts = list(references)
    if 2 * sum(map(is_unspaced, texts)) <= len(texts):
        return SPACED
    return "char" if any(map(has_kana, texts)) else "zh"


def _metrics(tokens: str) -> tuple[Any, Any]:  # metrics store their signature: new at each call
    # force: no warning if a text seems to be tokenised; both conventions are intended.
    lowercase = "none" if tokens == SPACED else tokens
    return (
        _metric(tokenize=tokens, force=True),
        _metric(lowercase=True, tokenize=lowercase, force=True),
    )


@cache
def _sentence_metric(tokens: str) -> Any:
    return _metric(effective_order=True, tokenize=tokens)


def _metric(**options: Any) -> Any:
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise UserError(
            f"BLEU needs sacrebleu; install it: {install_command('translation')}"
        ) from None
    return BLEU(**options)


class _Score(NamedTuple):
    """Result of a metric, with sacrebleu's names."""

    score: float
    sys_len: int
    ref_len: int


@dataclass(frozen=True)
class _WordBleu:
    """Corpus BLEU-4 on words split at white space, with sacrebleu's exponential smoothing."""

    tokens: str
    lowercase: bool = False

    def get_signature(self) -> str:
        """Return the settings that the figure depends on."""
        case = "lc" if self.lowercase else "mixed"
        tokens = "none" if self.tokens == SPACED else "characters"
        return f"case:{case}|eff:no|tok:{tokens}|smooth:exp|without sacrebleu"

    def corpus_score(
        self, hypotheses: Sequence[str], streams: Sequence[Sequence[str | None]]
    ) -> _Score:
        """Score hypotheses against reference streams (see `_streams`)."""
        matches, totals = [0] * ORDER, [0] * ORDER
        output_words = wanted_words = 0
        for text, *references in zip(hypotheses, *streams, strict=True):
            output = self._words(text or "")
            wanted = [self._words(each) for each in references if each is not None]
            output_words += len(output)
            wanted_words += min((abs(len(each) - len(output)), len(each)) for each in wanted)[1]
            for n in range(1, ORDER + 1):
                counts = _ngrams(output, n)
                most: Counter[tuple[str, ...]] = Counter()
                for each in wanted:
                    most |= _ngrams(each, n)
                matches[n - 1] += (counts & most).total()
                totals[n - 1] += counts.total()
        return _Score(
            _bleu(matches, totals, output_words, wanted_words), output_words, wanted_words
        )

    def _words(self, text: str) -> list[str]:
        return split_words(text.lower() if self.lowercase else text)


def _bleu(matches: Sequence[int], totals: Sequence[int], output: int, wanted: int) -> float:
    """Return BLEU, 0 to 100, from n-gram counts; the k-th zero count becomes 1/2ᵏ."""
    if not all(totals) or not any(matches):
        return 0.0
    logs, zeros = 0.0, 0
    for matched, total in zip(matches, totals, strict=True):
        zeros += not matched
        logs += math.log((matched or 0.5**zeros) / total)
    return 100 * math.exp(min(0.0, 1 - wanted / output) + logs / len(matches))


def _own_metrics(tokens: str) -> tuple[Any, Any]:
    return _WordBleu(tokens), _WordBleu(tokens, lowercase=True)


def phrase_bleu(reference: str, hypothesis: str, order: int) -> float:
    """BLEU-k of one short phrase, 0 to 1: exp(min(0, 1 − r/h)) · Π_{n ≤ k} p_n^(1/2ⁿ).

    r, h: number of words of reference and hypothesis; p_n: precision of n-grams; k: `order`, or h
    if smaller. Source: the sequence-to-sequence chapter of "Dive into Deep Learning" (Zhang et
    al.). The weights of the n-grams differ from corpus BLEU: the two are not comparable.
    """
    wanted, output = split_words(reference), split_words(hypothesis)
    if not output:
        return 0.0
    figure = math.exp(min(0.0, 1 - len(wanted) / len(output)))
    for n in range(1, min(order, len(output)) + 1):
        matches = (_ngrams(output, n) & _ngrams(wanted, n)).total()
        figure *= (matches / (len(output) - n + 1)) ** 0.5**n
    return figure


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
