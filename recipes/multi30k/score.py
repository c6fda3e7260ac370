"""Score a translator or an ensemble on a test set: BLEU in two conventions.

    python recipes/multi30k/score.py -m RUN/model --source raw/test_2016_flickr.en.gz \\
        --reference raw/test_2016_flickr.de.gz --tokens tok/test_2016_flickr.lc.norm.tok.de.gz \\
        --language de
    python recipes/multi30k/score.py -m RUN/model --pairs fra.txt.gz --list recipes/fra_eng/test.txt

The first figure is sacrebleu's: cased, detokenised, with its signature. The figure of the papers is
on lower-cased tokens: --tokens is the file of tokenised references, and translations are tokenised
by Moses' rules (`pip install sacremoses`). As a check of these rules, the number of references that
they tokenise exactly as in the file is printed. A model that was trained on such tokens is scored
with --source and --reference in this form: its figure is in the line `tok:none`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from asr.commands.options import count
from asr.corpora.pairs import gather, part, read_pairs, read_parallel, read_sentences
from asr.errors import UserError, exit_status
from asr.inference.translator import Translator
from asr.scoring.bleu import report, score

Sentences = tuple[list[str], list[tuple[str, ...]]]  # sources, and the references of each


def moses(language: str) -> Callable[[str], str]:
    """Return a function that lower-cases, normalises and tokenises like Multi30K's token files."""
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError:
        raise UserError("--tokens needs sacremoses; install it: pip install sacremoses") from None
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda text: tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True)


def listed(pairs: Path, names: Path) -> Sentences:
    """Read the pairs of the listed sources: each source once, with all its translations."""
    _, (chosen,) = part(read_pairs(pairs), [read_sentences(names)])
    found = gather(chosen)
    return list(found), list(found.values())


def parallel(source: Path, reference: Path) -> Sentences:
    """Read two parallel files."""
    pairs = read_parallel(source, reference)
    return [pair.source for pair in pairs], [(pair.target,) for pair in pairs]


def token_report(
    hypotheses: Sequence[str], references: Sequence[tuple[str, ...]], tokens: Path, language: str
) -> str:
    """Score translations as lower-cased tokens, and report the accuracy of the tokeniser."""
    rules = moses(language)
    wanted = read_sentences(tokens)
    result = score(wanted, [rules(text) for text in hypotheses])
    same = sum(rules(each[0]) == its for each, its in zip(references, wanted, strict=True))
    return (
        f"BLEU {result.lowercase:.2f}  {result.lowercase_signature}  tokens of {tokens.name} "
        f"({same} of {len(wanted)} references are tokenised as in the file)"
    )


def main() -> None:
    """Read the arguments, translate and score."""
    parser = argparse.ArgumentParser(description="BLEU of a translator on a test set.")
    parser.add_argument("-m", "--model", action="append", required=True, help="several vote")
    parser.add_argument("--source", type=Path, help="sentences, one per line")
    parser.add_argument("--reference", type=Path, help="their translations, line by line")
    parser.add_argument("--pairs", type=Path, help="instead: file of source<TAB>target lines")
    parser.add_argument("--list", type=Path, help="list of the sources in --pairs to score")
    parser.add_argument("--tokens", type=Path, help="references as lower-cased Moses tokens")
    parser.add_argument("--language", default="de", help="target language (default: de)")
    parser.add_argument("--beam", type=count, default=5)
    parser.add_argument("--length-penalty", type=float, default=1.0)
    parser.add_argument("--parted", action="store_true", help="translate sentences separately")
    parser.add_argument("--output", type=Path, help="file for the translations")
    given = parser.parse_args()
    if given.pairs and given.list:
        sources, references = listed(given.pairs, given.list)
    elif given.source and given.reference:
        sources, references = parallel(given.source, given.reference)
    else:
        parser.error("wanted --source and --reference, or --pairs and --list")
    translator = Translator.load(given.model)
    start = time.perf_counter()
    found = translator.translate(
        sources, beam=given.beam, length_penalty=given.length_penalty, whole=not given.parted
    )
    seconds = time.perf_counter() - start
    hypotheses = [each.text for each in found]
    if given.output:
        given.output.write_text("".join(f"{text}\n" for text in hypotheses), "utf-8")
    print(f"{len(sources)} sentences, beam {given.beam}, {len(sources) / seconds:.1f} a second")
    print(report(score(references, hypotheses, sources)))
    if given.tokens:
        print(token_report(hypotheses, references, given.tokens, given.language))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
