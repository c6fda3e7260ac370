"""`asr evaluate` of a translation model: BLEU, attention health and cost on sentence pairs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from asr.commands.output import format_of, replacing
from asr.corpora.pairs import Pair, gather, read_pairs, tidy, tokenise
from asr.text.scripts import split_words

if TYPE_CHECKING:
    from asr.inference.translator import Translator
    from asr.scoring.bleu import Bleu
    from asr.scoring.health import Corpus, Health
    from asr.translation import Translation

BEAM: Final = 4  # as `asr translate`
PHRASES: Final = 12  # rows of the table at most: the sentences with the lowest BLEU
PHRASE_ORDER: Final = 2  # n-gram order of phrase BLEU: some phrases have two words
CELL: Final = 44  # most characters of a sentence in the table
PICTURES: Final = {"png": ".png", "svg": ".svg", "pdf": ".pdf"}


class TranslationOptions(NamedTuple):
    """The beam size, and the options that only translation has; None or False if not given.

    to: target language of a model of the package. whole: translate each source as one sentence.
    heat_map: file for a picture of the attention of the first sentences.
    """

    to: str | None
    beam: int | None
    length_penalty: float | None
    whole: bool
    heat_map: Path | None

    def given(self) -> dict[str, object]:
        """Return the given options that only translation has, by name."""
        every = self._asdict()
        return {
            name: each
            for name, each in every.items()
            if name != "beam" and each is not None and each is not False
        }


class _Result(NamedTuple):
    """A translated sentence. bleu: `phrase_bleu`, 0 to 1, of the most similar reference."""

    translation: Translation
    references: tuple[str, ...]
    bleu: float
    health: Health  # of the weights between words


@dataclass(frozen=True)
class _Cost:
    """Wall time and CPU time of translating the sentences, in seconds."""

    sentences: int
    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.sentences} sentences in {self.seconds:.1f} s: "
            f"{self.sentences / self.seconds:.1f} sentences a second, "
            f"{self.cpu_seconds / self.sentences:.3f} CPU-seconds a sentence"
        )


class _Report(NamedTuple):
    """Measures over all sentences. chrf: with its signature; None without sacrebleu."""

    results: Sequence[_Result]
    bleu: Bleu
    chrf: tuple[float, str] | None
    exact: int  # translations equal to a reference
    health: Corpus
    cost: _Cost


def run(
    pairs: Path,
    model: str | None,
    limit: int | None,
    options: TranslationOptions,
    as_json: bool,
    output: Path | None,
    device: str = "cpu",
    runtime: str = "auto",
) -> int:
    """Evaluate a translation model on sentence pairs; return 0.

    limit: use only the first `limit` sentences. output: a .jsonl file of translations.

    Raises:
        UserError: the pairs or the model cannot be used, or a file cannot be written.
    """
    read = read_pairs(pairs)
    if options.heat_map is not None:
        format_of(options.heat_map, PICTURES)
    with ExitStack() as stack:
        picture = None
        if options.heat_map is not None:
            picture = stack.enter_context(replacing(options.heat_map))
        file = None
        if output is not None:
            part = stack.enter_context(replacing(output))
            file = stack.enter_context(part.open("w", encoding="utf-8", newline="\n"))
        from asr.inference.translator import Translator

        translator = Translator.load(model, device, options.to, runtime)
        report = _evaluated(translator, _references(translator, read, limit), options)
        print((_as_json if as_json else _as_text)(report))
        if file is not None:
            _write(report.results, file)
        if picture is not None:
            _draw(picture, report.results)
    return 0


def _references(
    translator: Translator, pairs: Sequence[Pair], limit: int | None
) -> dict[str, tuple[str, ...]]:
    """Return all references of each source, in the form that the model was trained on."""
    change = tokenise if translator.source.kind == "words" else tidy
    found = gather(Pair(change(pair.source), change(pair.target)) for pair in pairs)
    return dict(list(found.items())[:limit])


def _evaluated(
    translator: Translator, references: dict[str, tuple[str, ...]], options: TranslationOptions
) -> _Report:
    """Translate all sources and score the translations."""
    from asr.scoring import bleu, health

    sources, targets = list(references), list(references.values())
    wall, processors = time.perf_counter(), time.process_time()
    translations = translator.translate(
        sources,
        beam=options.beam or BEAM,
        length_penalty=1.0 if options.length_penalty is None else options.length_penalty,
        whole=options.whole,
    )
    cost = _Cost(len(sources), time.perf_counter() - wall, time.process_time() - processors)
    results = list(map(_scored, translations, targets))
    texts = [each.text for each in translations]
    sacrebleu = bleu.has_sacrebleu()
    return _Report(
        results,
        bleu.score(targets, texts, sources, own=not sacrebleu),
        bleu.chrf(targets, texts) if sacrebleu else None,
        sum(text in wanted for text, wanted in zip(texts, targets, strict=True)),
        health.aggregate(
            [each.health for each in results],
            bleu.LENGTHS,
            health.TRANSLATION,
            [len(split_words(source)) for source in sources],
        ),
        cost,
    )


def _scored(translation: Translation, references: tuple[str, ...]) -> _Result:
    import torch

    from asr.scoring.bleu import phrase_bleu
    from asr.scoring.health import measure

    output_tokens = tokenise(translation.text)
    figure = max(phrase_bleu(tokenise(each), output_tokens, PHRASE_ORDER) for each in references)
    health = measure(torch.from_numpy(translation.words.weights))
    return _Result(translation, references, figure, health)


def _as_text(report: _Report) -> str:
    from asr.scoring import bleu, health

    count = len(report.results)
    scores = bleu.report(report.bleu).splitlines()
    if report.chrf is not None:
        scores.insert(2, f"chrF {report.chrf[0]:.2f}  {report.chrf[1]}")
    scores.insert(
        2 + (report.chrf is not None), f"{report.exact} of {count} exactly as a reference"
    )
    reasons = _reasons(report.results).most_common()
    stops = "stopped by " + ", ".join(f"{name}: {number}" for name, number in reasons)
    parts = (_phrases(report.results), "\n".join(scores), health.report(report.health))
    return "\n\n".join((*parts, f"{stops}\n{report.cost}"))


def _phrases(results: Sequence[_Result]) -> str:
    """Return a table of the sentences, at most `PHRASES`, those with the lowest BLEU."""
    from asr.render.tables import text_table
    from asr.scoring.health import TRANSLATION, summary

    header = ("phrase", "translation", "reference", f"BLEU-{PHRASE_ORDER}", "attention")
    shown = results
    if len(results) > PHRASES:
        shown = sorted(results, key=lambda each: each.bleu)[:PHRASES]
    rows = [
        (
            _shortened(each.translation.source),
            _shortened(each.translation.text),
            _shortened(" | ".join(each.references)),
            each.bleu,
            summary(each.health, TRANSLATION),
        )
        for each in shown
    ]
    table = text_table(header, rows)
    if len(shown) < len(results):
        return f"the {len(shown)} of {len(results)} sentences with the lowest BLEU\n{table}"
    return table


def _shortened(text: str) -> str:
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"


def _as_json(report: _Report) -> str:
    from asr.scoring import health

    content: dict[str, Any] = {
        "sentences": len(report.results),
        **asdict(report.bleu),
        "by_length": [each._asdict() for each in report.bleu.by_length],
        "exact": report.exact,
        "attention": health.to_dict(report.health),
        "stop_reasons": _reasons(report.results),
        "cost": asdict(report.cost),
    }
    if report.chrf is not None:
        content["chrf"], content["chrf_signature"] = report.chrf
    return json.dumps(content, indent=1)


def _reasons(results: Sequence[_Result]) -> Counter[str]:
    return Counter(each.translation.stop_reason for each in results)


def _write(results: Sequence[_Result], file: TextIO) -> None:
    """Write one JSON object a line, in the order of the pairs."""
    from asr.scoring.health import TRANSLATION, diagnose

    for translation, references, bleu, health in results:
        findings = [each.name.lower() for each in diagnose(health, TRANSLATION)]
        record = {
            "source": translation.source,
            "text": translation.text,
            "references": references,
            "bleu": round(bleu, 4),
            "attention": {name: round(value, 4) for name, value in health._asdict().items()},
            "findings": findings,
            "log_probability": round(translation.log_probability, 3),
            "stop_reason": translation.stop_reason,
        }
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _draw(path: Path, results: Sequence[_Result]) -> None:
    """Draw the attention of the first sentences, up to the limit of a picture."""
    from asr.render.panels import MOST_PANELS, Panel, draw_heat_maps

    shown = [each.translation for each in results[:MOST_PANELS]]
    draw_heat_maps(
        path,
        [
            Panel(
                each.words.weights,
                each.words.source,
                each.words.target,
                f"{each.source} → {each.text}",
            )
            for each in shown
        ],
    )
    if len(shown) < len(results):
        print(f"the picture has the first {len(shown)} of {len(results)} sentences")
