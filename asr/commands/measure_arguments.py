"""The arguments of the commands that measure: `asr evaluate`, `score` and `score-alignment`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asr.commands.options import (
    add_audio_in,
    add_command,
    add_decoding,
    add_device,
    add_model,
    add_runtime,
    count,
    share,
    speed,
)


def add_evaluate(commands: Any) -> None:
    """Add `asr evaluate`."""
    parser = add_command(
        commands,
        "evaluate",
        "measure the quality and cost of a model",
        """Evaluate a model on held-out data. A speech model transcribes the utterances of a
manifest: word and character error rates, the most frequent errors, and the cost of decoding. A
translation model translates sentence pairs: BLEU, also by sentence length, attention health, and
the cost of decoding; lines with the same source are references of one sentence.""",
        """  asr evaluate data/speech/manifest.jsonl
  asr evaluate corpora/dev.jsonl --ids dev.txt --beam 8 --json > dev.json
  asr evaluate data/speech/manifest.jsonl --speed 1.3
  asr evaluate recipes/fra_eng/phrases.tsv -m runs/fra_eng/model --heat-map all.png
  asr evaluate recipes/fra_eng/phrases.tsv --to fr -o translations.jsonl""",
    )
    parser.add_argument(
        "data",
        type=Path,
        metavar="DATA",
        help="A manifest (JSON lines), or source<TAB>target lines.",
    )
    add_model(parser)
    add_device(parser)
    add_runtime(parser)
    parser.add_argument(
        "--to",
        metavar="LANGUAGE",
        help="Target language of the package's translation models: fr, de, zh or en.",
    )
    parser.add_argument("--ids", type=Path, metavar="FILE", help="Use only these ids, one a line.")
    add_audio_in(parser)
    parser.add_argument("--limit", type=count, metavar="N", help="Use only the first N.")
    add_decoding(parser)
    parser.add_argument(
        "--length-penalty",
        type=share,
        metavar="P",
        help="Translation: divide scores by the length to this power, 0 to 1.",
    )
    whole = "Translate each source as one sentence."
    parser.add_argument("--whole", action="store_true", help=whole)
    parser.add_argument(
        "--heat-map",
        type=Path,
        metavar="OUT",
        help="Draw the attention weights of up to 12 translations: .png .svg .pdf.",
    )
    parser.add_argument(
        "--speed",
        type=speed,
        default=1.0,
        metavar="X",
        help="Play the audio X times faster, 0.5 to 2, to measure errors on fast speech.",
    )
    parser.add_argument(
        "--attention",
        action="store_true",
        help="Also report attention health; always reported for translation.",
    )
    parser.add_argument("--json", action="store_true", help="Report as JSON.")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="Write the hypotheses, as JSON lines."
    )
    parser.set_defaults(command="evaluate")


def add_score(commands: Any) -> None:
    """Add `asr score`."""
    parser = add_command(
        commands,
        "score",
        "score transcripts, or compare two systems",
        """Count the errors of hypotheses. .jsonl files are paired by id (or audio file name), text
files line by line. Without --normalize, texts are compared unchanged. With two files of
hypotheses, print the difference of their word error rates with a confidence interval, by a paired
bootstrap: if it does not contain 0, the difference is more than chance.""",
        """  asr score data/speech/manifest.jsonl hypotheses.jsonl --normalize
  asr score test.jsonl before.jsonl after.jsonl --normalize
  asr score reference.txt hypothesis.txt --worst 3""",
    )
    parser.add_argument("reference", type=Path, metavar="REF", help="References.")
    parser.add_argument(
        "hypothesis", type=Path, nargs="+", metavar="HYP", help="Hypotheses, of one system or two."
    )
    parser.add_argument(
        "--normalize", action="store_true", help="Normalise all to lower-case a to z."
    )
    parser.add_argument("--json", action="store_true", help="Report as JSON.")
    parser.add_argument(
        "--worst",
        type=count,
        default=10,
        metavar="N",
        help="Print the N worst pairs (default: %(default)s).",
    )
    parser.set_defaults(command="score")


def add_score_alignment(commands: Any) -> None:
    """Add `asr score-alignment`."""
    parser = add_command(
        commands,
        "score-alignment",
        "compare two files or folders of word times",
        """Measure how far the starts and ends of words are from those of a reference. Formats:
.ctm, .TextGrid (the tier "words"), .json and .jsonl as written by asr transcribe and asr align.
Recordings are paired by name.""",
        """  asr score-alignment by-hand.TextGrid talk.TextGrid
  asr score-alignment by-hand/ transcripts.jsonl
  asr score-alignment alignments.jsonl.gz transcripts.jsonl --json""",
    )
    parser.add_argument(
        "reference", type=Path, metavar="REF", help="File or folder of the reference."
    )
    parser.add_argument("hypothesis", type=Path, metavar="HYP", help="File or folder to score.")
    parser.add_argument("--json", action="store_true", help="Report as JSON.")
    parser.set_defaults(command="score_alignment")
