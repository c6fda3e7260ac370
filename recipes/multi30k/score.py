"""Score a translator, or an ensemble of several, on a test set: BLEU by two conventions.

    python recipes/multi30k/score.py -m RUN/model --source raw/test_2016_flickr.en.gz \\
        --reference raw/test_2016_flickr.de.gz --tokens tok/test_2016_flickr.lc.norm.tok.de.gz \\
        --language de
    python recipes/multi30k/score.py -m RUN/model --pairs fra.txt.gz --list recipes/fra_eng/test.txt

The first figure is sacrebleu's own: cased, detokenised, with its signature. The papers' figure is
that of lower-cased tokens: --tokens names the references in that form, and the translations are
brought into it by Moses' rules, for which `pip install sacremoses` is needed. How many references
those rules bring to exactly what the file holds is printed beside it. A model that was trained on
such tokens is scored with --source and --reference of that form: its figure is the line `tok:none`.
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
    """Return what lower-cases, normalises and tokenises as Multi30K's own token files are made."""
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError:
        raise UserError("--tokens needs sacremoses; install it: pip install sacremoses") from None
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda text: tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True)


def listed(pairs: Path, names: Path) -> Sentences:
    """Read the pairs of the sentences in a list: each source once, with all its translations."""
    _, (chosen,) = part(read_pairs(pairs), [read_sentences(names)])
    found = gather(chosen)
    return list(found), list(found.values())


def parallel(source: Path, reference: Path) -> Sentences:
    """Read two files of which line n of one translates line n of the other."""
    pairs = read_parallel(source, reference)
    return [pair.source for pair in pairs], [(pair.target,) for pair in pairs]


def token_report(
    hypotheses: Sequence[str], references: Sequence[tuple[str, ...]], tokens: Path, language: str
) -> str:
    """Score translations as lower-cased tokens, and say how far the rules can be trusted."""
    rules = moses(language)
    wanted = read_sentences(tokens)
    result = score(wanted, [rules(text) for text in hypotheses])
    same = sum(rules(each[0]) == its for each, its in zip(references, wanted, strict=True))
    return (
        f"BLEU {result.lowercase:.2f}  {result.lowercase_signature}  tokens of {tokens.name} "
        f"({same} of {len(wanted)} references come out as in the file)"
    )


def main() -> None:
    """Read the arguments, translate and score."""
    parser = argparse.ArgumentParser(description="BLEU of a translator on a test set.")
    parser.add_argument("-m", "--model", action="append", required=True, help="several vote")
    parser.add_argument("--source", type=Path, help="sentences, one a line")
    parser.add_argument("--reference", type=Path, help="their translations, line by line")
    parser.add_argument("--pairs", type=Path, help="instead: a file of source<TAB>target …")
    parser.add_argument("--list", type=Path, help="… and which of its sources to score")
    parser.add_argument("--tokens", type=Path, help="references as lower-cased Moses tokens")
    parser.add_argument("--language", default="de", help="of the translations (default: de)")
    parser.add_argument("--beam", type=count, default=5)
    parser.add_argument("--length-penalty", type=float, default=1.0)
    parser.add_argument("--parted", action="store_true", help="sentence by sentence")
    parser.add_argument("--output", type=Path, help="write the translations here")
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
