"""The arguments of all commands; `asr.cli` runs them.

The help of an option that is also a setting is generated from the setting: see `add_option`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from asr import __version__
from asr.commands.options import (
    Help,
    Parser,
    add_command,
    add_decoding,
    add_device,
    add_live,
    add_model,
    add_option,
    add_runtime,
    count,
    share,
    speed,
)
from asr.commands.output import FORMATS
from asr.commands.prepare_arguments import add_prepare
from asr.commands.read import FILES as READING_FILES
from asr.commands.read import FORMATS as READINGS
from asr.commands.serve_arguments import add_serve
from asr.commands.translate import FORMATS as TRANSLATIONS
from asr.inference.options import DecodingOptions, TranslationOptions


def command_line() -> argparse.ArgumentParser:
    """Return the parser of all commands; `command` holds the name of the parsed command."""
    whole = Parser(
        prog="asr",
        description="Speech recognition and translation with Bahdanau attention.",
        epilog="asr COMMAND --help lists the options of a command, with examples.",
        formatter_class=Help,
        allow_abbrev=False,
    )
    whole.add_argument("-V", "--version", action="version", version=f"asr {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    _add_transcribe(commands)
    _add_align(commands)
    _add_read(commands)
    _add_train(commands)
    _add_evaluate(commands)
    _add_score(commands)
    add_prepare(commands)
    _add_translate(commands)
    _add_check(commands)
    add_serve(commands)
    return whole


def _add_transcribe(commands: Any) -> None:
    parser = add_command(
        commands,
        "transcribe",
        "transcribe recordings",
        """Transcribe recordings. The transcripts are written to stdout, one line each, in the given
order. If a recording fails, an error is printed on stderr, the others continue, and the exit status
is 2. Formats: WAV, FLAC, Ogg, Opus, MP3; with ffmpeg installed, all formats of ffmpeg.""",
        """  asr transcribe talk.flac
  asr transcribe recordings/ -o all.jsonl
  asr transcribe lecture.mp3 -f srt > lecture.srt
  arecord -d 5 -f S16_LE -r 16000 | asr transcribe -
  arecord -t raw -f S16_LE -r 16000 | asr transcribe --live -""",
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="File, folder, or - for stdin.")
    add_model(parser)
    add_device(parser)
    add_runtime(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help=f"File to write; its ending sets the format: {' '.join(FORMATS.values())}.",
    )
    parser.add_argument(
        "-f",
        "--format",
        choices=list(FORMATS),
        metavar="FORMAT",
        help=f"Output format, overrides the ending: {', '.join(FORMATS)} (default: by the ending, "
        f"else {next(iter(FORMATS))}).",
    )
    written = parser.add_mutually_exclusive_group()
    written.add_argument(
        "--plain",
        action="store_true",
        help="Write the bare words, in lower case and without punctuation.",
    )
    written.add_argument(
        "--digits",
        action="store_true",
        help='Write numbers of 10 and above in digits: "23", "1984", "21st", "20%%".',
    )
    add_live(parser)
    add_decoding(parser)
    add_option(parser, DecodingOptions, "batch_seconds", "S")
    parser.set_defaults(command="transcribe")


def _add_align(commands: Any) -> None:
    parser = add_command(
        commands,
        "align",
        "find word times and draw the attention",
        """Align a recording with its text; without --text, with its transcript.
Without -o the words and their times are written to stdout as a table. In a picture, the attention
window is outlined if the model has one or --window sets one.""",
        """  asr align talk.flac -o talk.png
  asr align talk.flac --text "good morning" -o talk.TextGrid -o talk.json""",
    )
    parser.add_argument("audio", metavar="AUDIO", help="File, or - for stdin.")
    parser.add_argument("--text", help="The text; it is normalised to lower-case a to z.")
    add_model(parser)
    add_device(parser)
    add_runtime(parser)
    parser.add_argument(
        "-o",
        "--output",
        dest="outputs",
        action="append",
        default=[],
        type=Path,
        metavar="OUT",
        help="File to write, may be repeated: .png .svg .pdf (pictures) "
        + " ".join(FORMATS.values()),
    )
    add_decoding(parser)
    parser.set_defaults(command="align")


def _add_read(commands: Any) -> None:
    parser = add_command(
        commands,
        "read",
        "compare a recording with the page that was read aloud",
        """Compare a recording with the text that was read aloud: which words were read right,
misread, skipped, repeated or added, hesitations, and words a minute. Without -o and -f the page is
written to stdout with marks, in colour on a terminal (unless NO_COLOR is set). An .html file holds
the recording too: a click on a word plays it.""",
        """  asr read child.wav --text page.txt
  asr read child.wav --text page.txt -o page.html
  asr read child.wav --text page.txt -f json > page.json""",
    )
    parser.add_argument("audio", metavar="AUDIO", help="File, or - for stdin.")
    parser.add_argument(
        "--text", type=Path, required=True, metavar="PAGE", help="Text file (UTF-8) that was read."
    )
    add_model(parser)
    add_device(parser)
    add_runtime(parser)
    parser.add_argument(
        "-o",
        "--output",
        dest="outputs",
        action="append",
        default=[],
        type=Path,
        metavar="OUT",
        help="File to write, may be repeated: " + " ".join(READING_FILES.values()),
    )
    parser.add_argument(
        "-f",
        "--format",
        choices=READINGS,
        metavar="FORMAT",
        help=f"Format of stdout: {', '.join(READINGS)} (default: text, or nothing with -o).",
    )
    add_decoding(parser)
    parser.set_defaults(command="read")


def _add_train(commands: Any) -> None:
    parser = add_command(
        commands,
        "train",
        "train a model",
        """Train a model from a TOML config. All output is written to the run folder. The same
command resumes an interrupted run; SIGTERM stops it with a checkpoint. The path of the finished
model is printed.""",
        """  asr train recipes/librispeech/shipped.toml runs/one --data corpora
  asr train my.toml runs/quick --set training.steps=2000 --set model.attention.size=64""",
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="A .toml file; see recipes/.")
    parser.add_argument("folder", type=Path, metavar="RUN_FOLDER", help="Created if missing.")
    parser.add_argument(
        "--data",
        type=Path,
        help="Folder that the config's data paths are relative to (default: that of the config).",
    )
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="Set a key of the config, may be repeated. A key that is not read is refused.",
    )
    parser.add_argument(
        "--continue-anyway",
        action="store_true",
        help="Resume although config, seed or data are not those that the run began with.",
    )
    parser.set_defaults(command="train")


def _add_evaluate(commands: Any) -> None:
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
        help="Target language of the package's translation models: fr or de.",
    )
    parser.add_argument("--ids", type=Path, metavar="FILE", help="Use only these ids, one a line.")
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


def _add_score(commands: Any) -> None:
    parser = add_command(
        commands,
        "score",
        "compare two files of transcripts",
        """Count the errors of hypotheses. Two .jsonl files are paired by id (or audio file name),
two text files line by line. Without --normalize, texts are compared unchanged.""",
        """  asr score data/speech/manifest.jsonl hypotheses.jsonl --normalize
  asr score reference.txt hypothesis.txt --worst 3""",
    )
    parser.add_argument("reference", type=Path, metavar="REF", help="References.")
    parser.add_argument("hypothesis", type=Path, metavar="HYP", help="Hypotheses.")
    parser.add_argument(
        "--normalize", action="store_true", help="Normalise both to lower-case a to z."
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


def _add_translate(commands: Any) -> None:
    parser = add_command(
        commands,
        "translate",
        "translate text",
        """Translate texts, or the lines of a file or of stdin, to stdout, one line each. The
sentences of a text are translated separately. Subtitles (--file of .srt or .vtt, or -f srt or vtt)
keep their times: a sentence of several cues is translated as a whole and split where the attention
moves to the next cue. The package's models translate English to French and German.""",
        """  asr translate "How are you?"
  asr translate --why --heat-map where.png "I'm cold."
  asr translate --to de -f jsonl < english.txt
  asr translate -m runs/one/model -m runs/two/model --file talk.srt > talk.fr.srt""",
    )
    parser.add_argument(
        "texts", nargs="*", metavar="TEXT", help="Texts; without any, lines of stdin."
    )
    parser.add_argument("--file", type=Path, help="File whose lines (or cues) are translated.")
    parser.add_argument(
        "-m",
        "--model",
        dest="models",
        action="append",
        default=[],
        metavar="DIR",
        help="Folder of a translation model; repeated, the models form an ensemble.",
    )
    add_device(parser)
    add_runtime(parser)
    parser.add_argument(
        "--to",
        metavar="LANGUAGE",
        help="Target language of the package's models: fr (default) or de.",
    )
    parser.add_argument(
        "-f",
        "--format",
        choices=TRANSLATIONS,
        metavar="FORMAT",
        help=f"Output format: {', '.join(TRANSLATIONS)} (default: text; for subtitles, the format "
        "of the file). pharaoh: source-target indices of aligned words.",
    )
    parser.add_argument(
        "--why",
        dest="format",
        action="store_const",
        const="why",
        help="Same as -f why: each word with its attention weights over the source words.",
    )
    add_option(parser, TranslationOptions, "beam", "N")
    add_option(parser, TranslationOptions, "length_penalty", "P")
    parser.add_argument("--whole", action="store_true", help="Translate each text as one sentence.")
    parser.add_argument(
        "--heat-map", type=Path, metavar="OUT", help="Draw the attention weights: .png .svg .pdf."
    )
    parser.set_defaults(command="translate")


def _add_check(commands: Any) -> None:
    parser = add_command(
        commands,
        "check",
        "verify the files of a model or a run",
        """Print each file of a model folder or a run folder with its format and whether its
checksum holds, and load the models. The exit status is 2 if a file is damaged.""",
        """  asr check english
  asr check runs/one
  asr check runs/one/model --renew""",
    )
    parser.add_argument(
        "path", type=Path, metavar="MODEL|RUN", help="Folder, or the name of a packaged model."
    )
    renew = "Write the checksums anew, after a file was changed on purpose."
    parser.add_argument("--renew", action="store_true", help=renew)
    parser.set_defaults(command="check")
