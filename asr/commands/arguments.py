"""The arguments of all commands; `asr.cli` runs them.

The help of an option that is also a setting is generated from the setting: see `add_option`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from asr import __version__
from asr.commands.completion import SHELLS, PrintCompletion
from asr.commands.folder_arguments import add_check, add_export, add_shrink
from asr.commands.measure_arguments import add_evaluate, add_score, add_score_alignment
from asr.commands.options import (
    Help,
    Once,
    Parser,
    add_audio_in,
    add_command,
    add_decoding,
    add_device,
    add_encoding,
    add_live,
    add_model,
    add_option,
    add_overrides,
    add_runtime,
    share,
)
from asr.commands.output import FORMATS, format_name
from asr.commands.prepare_arguments import add_prepare
from asr.commands.read import FILES as READING_FILES
from asr.commands.read import FORMATS as READINGS
from asr.commands.serve_arguments import add_serve
from asr.commands.translate import FILES as TRANSLATION_FILES
from asr.commands.translate import FORMATS as TRANSLATIONS
from asr.inference.options import DecodingOptions, TranslationOptions


def command_line(first: str = "") -> argparse.ArgumentParser:
    """Return the parser of all commands; `command` holds the name of the parsed command.

    first: the first argument; if it is a command, the others are left out, to save time.
    """
    whole = Parser(
        prog="asr",
        description="Speech recognition and translation with Bahdanau attention.",
        epilog="asr COMMAND --help lists the options of a command, with examples.",
        formatter_class=Help,
        allow_abbrev=False,
    )
    whole.add_argument("-V", "--version", action="version", version=f"asr {__version__}")
    whole.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        metavar="SHELL",
        help=f"Print the completion script of a shell: {', '.join(SHELLS)}.",
    )
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    adders = {
        "transcribe": _add_transcribe,
        "align": _add_align,
        "read": _add_read,
        "train": _add_train,
        "evaluate": add_evaluate,
        "score": add_score,
        "score-alignment": add_score_alignment,
        "prepare": add_prepare,
        "translate": _add_translate,
        "check": add_check,
        "export": add_export,
        "shrink": add_shrink,
        "serve": add_serve,
    }
    for add in [adders[first]] if first in adders else adders.values():
        add(commands)
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
  asr transcribe lecture.mp3 -o lecture.srt -o lecture.json
  asr transcribe recordings/ -f srt -f vtt -o subtitles/
  asr transcribe talk.flac --hotwords "Bahdanau, Dzmitry"
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
        dest="outputs",
        action="append",
        default=[],
        metavar="OUT",
        help="File to write, may be repeated; its ending sets the format: "
        f"{' '.join(FORMATS.values())}. A folder (FOLDER/) gets a file for each recording, in the "
        "format of -f.",
    )
    parser.add_argument(
        "-f",
        "--format",
        dest="formats",
        action="append",
        type=format_name,
        default=[],
        choices=list(FORMATS),
        metavar="FORMAT",
        help=f"Output format, overrides the ending: {', '.join(FORMATS)} (default: by the ending, "
        f"else {next(iter(FORMATS))}). Repeated, a folder gets a file in each.",
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
    parser.add_argument(
        "--mark-below",
        type=share,
        metavar="P",
        help="In text and subtitles, write words with a confidence below P, from 0 to 1, as "
        "[word?] (default: no marks).",
    )
    parser.add_argument(
        "--keep-low-confidence",
        action="store_true",
        help="Keep segments in subtitles whose text is likely to be invented; by default they are "
        "left out, with a warning.",
    )
    add_live(
        parser,
        "--live",
        "Read raw samples (16 bits, little-endian, one channel) from - and write text as soon as "
        "it is final.",
    )
    add_decoding(parser)
    add_option(parser, DecodingOptions, "n_best", "N")
    add_option(parser, DecodingOptions, "batch_seconds", "S")
    add_option(parser, DecodingOptions, "longest", "HOURS")
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
  asr align talk.flac --text "good morning" -o talk.TextGrid -o talk.json
  asr align talk.flac --text talk.txt -o talk.TextGrid""",
    )
    parser.add_argument("audio", metavar="AUDIO", help="File, or - for stdin.")
    parser.add_argument(
        "--text",
        metavar="FILE|TEXT",
        help="The text, or a text file of it; it is normalised to lower-case a to z.",
    )
    add_encoding(parser, "the text file")
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
the recording too: a click on a word plays it. With --follow or --microphone the sentence that is
being read is written as soon as it is begun (-f json: a record a line for each word), and the
comparison at the end.""",
        """  asr read child.wav --text page.txt
  asr read child.wav --text page.txt -o page.html
  asr read child.wav --text page.txt -f json > page.json
  asr read --microphone --text page.txt
  arecord -t raw -f S16_LE -r 16000 | asr read --follow - --text page.txt""",
    )
    parser.add_argument("audio", nargs="?", metavar="AUDIO", help="File, or - for stdin.")
    parser.add_argument(
        "--text", type=Path, required=True, metavar="PAGE", help="Text file that was read."
    )
    add_encoding(parser, "the page")
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
        action=Once,
        type=format_name,
        choices=READINGS,
        metavar="FORMAT",
        help=f"Format of stdout: {', '.join(READINGS)} (default: text, or nothing with -o).",
    )
    add_live(
        parser,
        "--follow",
        "Read raw samples (16 bits, little-endian, one channel) from - and write which sentence is "
        "being read.",
    )
    add_decoding(parser)
    parser.set_defaults(command="read")


def _add_train(commands: Any) -> None:
    parser = add_command(
        commands,
        "train",
        "train a model",
        """Train a model from a TOML config, or fine-tune a recogniser on a manifest (--from) with
settings that fit its size. All output is written to the run folder. The same command resumes an
interrupted run; Ctrl-C and SIGTERM stop it with a checkpoint. The path of the finished model is
printed.""",
        """  asr train --from english mine.jsonl runs/mine
  asr train recipes/librispeech/shipped.toml runs/one --data corpora
  asr train my.toml runs/quick --set training.steps=2000 --set model.attention.size=64""",
    )
    parser.add_argument(
        "config",
        type=Path,
        metavar="CONFIG|MANIFEST",
        help="A .toml file (see recipes/); with --from a manifest of recordings.",
    )
    parser.add_argument(
        "--from",
        dest="start",
        metavar="MODEL",
        help="Fine-tune this model: a folder, or the name of a model of the package.",
    )
    parser.add_argument(
        "--dev",
        type=Path,
        metavar="MANIFEST",
        help="With --from: recordings to validate on (default: a tenth, by speakers if known).",
    )
    add_audio_in(parser)
    parser.add_argument("folder", type=Path, metavar="RUN_FOLDER", help="Created if missing.")
    parser.add_argument(
        "--data",
        type=Path,
        help="Folder that the config's data paths are relative to (default: that of the config).",
    )
    add_overrides(
        parser, "Set a key of the config, may be repeated. A key that is not read is refused."
    )
    parser.add_argument(
        "--continue-anyway",
        action="store_true",
        help="Resume although config, seed or data are not those that the run began with.",
    )
    parser.set_defaults(command="train")


def _add_translate(commands: Any) -> None:
    parser = add_command(
        commands,
        "translate",
        "translate text",
        """Translate texts, or the lines of a file or of stdin, to stdout, one line each. The
sentences of a text are translated separately. A path of subtitles (.srt, .vtt, .ass, .ssa; -f names
the format of stdin) keeps its times, tags, speakers (- or JOHN:), [sounds], ♪ lyrics ♪; a sentence
of several cues is translated as a whole and split where the attention moves to the next cue. The
package's models translate English to French, German and Chinese, and Chinese to English.""",
        """  asr translate "How are you?"
  asr translate --why --heat-map where.png "I'm cold."
  asr translate --to de -f jsonl < english.txt
  asr translate --to en "我爱你。"
  asr translate talk.srt -o talk.fr.srt -o talk.fr.ass
  asr translate subtitles/ -o fr/
  asr translate -m runs/one/model -m runs/two/model --file talk.srt > talk.fr.srt""",
    )
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help="Texts; or paths: subtitles, .txt files, folders of subtitles, several of them with "
        "-o FOLDER/. Without any, lines of stdin.",
    )
    parser.add_argument("--file", type=Path, help="File whose lines (or cues) are translated.")
    add_encoding(parser, "subtitles")
    parser.add_argument(
        "-o",
        "--output",
        dest="outputs",
        action="append",
        default=[],
        metavar="OUT",
        help="File to write, may be repeated: "
        + " ".join(TRANSLATION_FILES.values())
        + ". A folder (FOLDER/) gets a file for each one that is translated.",
    )
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
        action=Once,
        metavar="LANGUAGE",
        help="Target language of the package's models: fr (default), de, zh, or en: from Chinese.",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "-f",
        "--format",
        action=Once,
        type=format_name,
        choices=TRANSLATIONS,
        metavar="FORMAT",
        help=f"Output format: {', '.join(TRANSLATIONS)} (default: text; for subtitles, the format "
        "of the file). pharaoh: source-target indices of aligned words.",
    )
    form.add_argument(
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
