"""What can be said on the command line; `asr.cli` does it."""

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
    add_model,
    count,
    seconds,
    share,
    speed,
)
from asr.commands.output import FORMATS
from asr.commands.translate import FORMATS as TRANSLATIONS


def command_line() -> argparse.ArgumentParser:
    """Return the parser of all commands; what it parses names the command in `command`."""
    whole = Parser(
        prog="asr",
        description="Speech to text with an attention encoder-decoder.",
        epilog="asr COMMAND --help tells what a command takes, with examples.",
        formatter_class=Help,
        allow_abbrev=False,
    )
    whole.add_argument("-V", "--version", action="version", version=f"asr {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    _add_transcribe(commands)
    _add_align(commands)
    _add_train(commands)
    _add_evaluate(commands)
    _add_score(commands)
    _add_prepare(commands)
    _add_translate(commands)
    return whole


def _add_transcribe(commands: Any) -> None:
    parser = add_command(
        commands,
        "transcribe",
        "turn recordings into text",
        """Transcribe recordings. The texts go to stdout, one line each, in the order given. A
recording that fails is a line on stderr; the others go on, and the exit status is 2.
Read are WAV, FLAC, Ogg, Opus, MP3, and with ffmpeg what that reads.""",
        """  asr transcribe talk.flac
  asr transcribe recordings/ -o all.jsonl
  asr transcribe lecture.mp3 -f srt > lecture.srt
  arecord -d 5 -f S16_LE -r 16000 | asr transcribe -""",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="file, folder, or - for stdin")
    add_model(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help=f"file to write; its ending chooses the format: {' '.join(FORMATS.values())}",
    )
    parser.add_argument(
        "-f",
        "--format",
        choices=list(FORMATS),
        metavar="FORMAT",
        help=f"one of {', '.join(FORMATS)}, whatever the ending (default: text)",
    )
    add_decoding(parser)
    parser.add_argument(
        "--batch-seconds",
        type=seconds,
        metavar="S",
        help="seconds of audio to decode at once (default: 60); less takes less memory",
    )
    parser.set_defaults(command="transcribe")


def _add_align(commands: Any) -> None:
    parser = add_command(
        commands,
        "align",
        "say when each word was said, and draw where the decoder looked",
        """Align a recording with a text, or with what is recognised where no text is given.
Without -o the words and their times go to stdout as a table.""",
        """  asr align talk.flac -o talk.png
  asr align talk.flac --text "good morning" -o talk.TextGrid -o talk.json""",
    )
    parser.add_argument("audio", metavar="AUDIO", help="file, or - for stdin")
    parser.add_argument("--text", help="what is said; it is brought to lower-case a to z")
    add_model(parser)
    parser.add_argument(
        "-o",
        "--output",
        dest="outputs",
        action="append",
        default=[],
        type=Path,
        metavar="OUT",
        help="file to write, several times if you like: .png .svg .pdf "
        + " ".join(FORMATS.values()),
    )
    add_decoding(parser)
    parser.set_defaults(command="align")


def _add_train(commands: Any) -> None:
    parser = add_command(
        commands,
        "train",
        "train a model from a config",
        """Train as a TOML config says. Everything goes into the run folder; called again, training
goes on where it stopped. The path of the finished model is printed.""",
        """  asr train recipes/librispeech/shipped.toml runs/one --data corpora
  asr train my.toml runs/quick --set training.steps=2000 --set model.attention.size=64""",
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="a .toml file, see recipes/")
    parser.add_argument("folder", type=Path, metavar="RUN_FOLDER", help="made if it is not there")
    parser.add_argument(
        "--data", type=Path, help="what the config's paths are relative to (default: its folder)"
    )
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting that replaces the config's; may be repeated",
    )
    parser.set_defaults(command="train")


def _add_evaluate(commands: Any) -> None:
    parser = add_command(
        commands,
        "evaluate",
        "measure a model's errors and speed",
        """Measure a model on held-out data. A speech model transcribes the utterances of a
manifest: word and character error rates, where the errors lie, the cost of decoding. A translation
model translates sentence pairs: BLEU, also by sentence length, the health of the attention, the
cost; lines with the same source are references of one sentence.""",
        """  asr evaluate data/speech/manifest.jsonl
  asr evaluate corpora/dev.jsonl --ids dev.txt --beam 8 --json > dev.json
  asr evaluate data/speech/manifest.jsonl --speed 1.3
  asr evaluate recipes/fra_eng/phrases.tsv -m runs/fra_eng/model --heat-map all.png
  asr evaluate recipes/fra_eng/phrases.tsv --to fr -o translations.jsonl""",
    )
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="JSON lines: audio, text; or source<TAB>target"
    )
    add_model(parser)
    parser.add_argument(
        "--to",
        metavar="LANGUAGE",
        help="in place of --model: the translation model of the package to this language, fr or de",
    )
    parser.add_argument("--ids", type=Path, metavar="FILE", help="take these ids only, one a line")
    parser.add_argument("--limit", type=count, metavar="N", help="take the first N only")
    add_decoding(parser)
    parser.add_argument(
        "--length-penalty",
        type=share,
        metavar="P",
        help="of translation, 0 to 1: the power of the length that a beam divides by (default: 1)",
    )
    parser.add_argument(
        "--whole", action="store_true", help="translate each source as one sentence"
    )
    parser.add_argument(
        "--heat-map",
        type=Path,
        metavar="OUT",
        help="draw the attention of the first translations, at most 12: .png .svg .pdf",
    )
    parser.add_argument(
        "--speed",
        type=speed,
        default=1.0,
        metavar="X",
        help="play the audio X times faster first, 0.5 to 2: what fast speech costs",
    )
    parser.add_argument(
        "--attention",
        action="store_true",
        help="report the health of the attention, too; always done for translation",
    )
    parser.add_argument("--json", action="store_true", help="report as JSON")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the hypotheses, JSON lines"
    )
    parser.set_defaults(command="evaluate")


def _add_score(commands: Any) -> None:
    parser = add_command(
        commands,
        "score",
        "count the errors between two files of transcripts",
        """Compare hypotheses with references: two .jsonl files are paired by id (or by the name of
the audio), two text files line by line. Texts are compared as they are.""",
        """  asr score data/speech/manifest.jsonl hypotheses.jsonl --normalize
  asr score reference.txt hypothesis.txt --worst 3""",
    )
    parser.add_argument("reference", type=Path, metavar="REF", help="what was said")
    parser.add_argument("hypothesis", type=Path, metavar="HYP", help="what was recognised")
    parser.add_argument(
        "--normalize", action="store_true", help="bring both to lower-case a to z first"
    )
    parser.add_argument("--json", action="store_true", help="report as JSON")
    parser.add_argument(
        "--worst", type=count, default=10, metavar="N", help="draw so many (default: 10)"
    )
    parser.set_defaults(command="score")


def _add_prepare(commands: Any) -> None:
    parser = add_command(
        commands,
        "prepare",
        "make manifests of corpora, and check them",
        "Make the manifests that train and evaluate read.",
        """  asr prepare librispeech corpora manifests --subset dev-clean --download
  asr prepare folder my_recordings my.jsonl
  asr prepare pseudo-labels all.jsonl corpora/mine
  asr prepare check my.jsonl""",
    )
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    _add_librispeech(kinds)

    folder = add_command(
        kinds,
        "folder",
        "of recordings with a .txt file beside each",
        "Write the manifest of a folder; day/one.wav belongs to day/one.txt.",
        "  asr prepare folder my_recordings my.jsonl",
    )
    folder.add_argument("audio", type=Path, metavar="DIR", help="searched at any depth")
    folder.add_argument("manifest", type=Path, metavar="MANIFEST", help="to write")
    folder.set_defaults(command="prepare_folder")

    labels = add_command(
        kinds,
        "pseudo-labels",
        "of recordings without a text, to train on what was recognised",
        """Of what `asr transcribe RECORDINGS -o FILE.jsonl` wrote, keep the texts that the model
was surest of, with their audio: a corpus for `asr train`. No person has looked at these texts.""",
        "  asr prepare pseudo-labels all.jsonl corpora/mine --keep 0.5",
    )
    labels.add_argument("transcripts", type=Path, metavar="TRANSCRIPTS", help="JSON lines")
    labels.add_argument("folder", type=Path, metavar="DIR", help="to write FLAC and manifest.jsonl")
    labels.add_argument(
        "--keep",
        type=share,
        default=0.5,
        metavar="SHARE",
        help="share of the texts that is kept (default: 0.5)",
    )
    labels.set_defaults(command="prepare_pseudo_labels")

    check = add_command(
        kinds,
        "check",
        "a manifest and its audio",
        "Print what is wrong with a manifest, one problem a line; the status is 2 if there is any.",
        "  asr prepare check my.jsonl",
    )
    check.add_argument("manifest", type=Path, metavar="MANIFEST", help="JSON lines")
    check.set_defaults(command="prepare_check")


def _add_librispeech(kinds: Any) -> None:
    parser = add_command(
        kinds,
        "librispeech",
        "LibriSpeech, or mini LibriSpeech",
        "Write OUTPUT/SUBSET.jsonl for each subset of LibriSpeech.",
        "  asr prepare librispeech corpora manifests --subset dev-clean --download",
    )
    parser.add_argument("root", type=Path, metavar="ROOT", help="the folder with LibriSpeech in it")
    parser.add_argument("output", type=Path, metavar="OUTPUT", help="folder of the manifests")
    parser.add_argument(
        "--subset",
        dest="subsets",
        action="append",
        metavar="NAME",
        help="such as dev-clean; may be repeated (default: all that are there)",
    )
    parser.add_argument(
        "--download", action="store_true", help="fetch the subsets that are missing"
    )
    parser.set_defaults(command="prepare_librispeech")


def _add_translate(commands: Any) -> None:
    parser = add_command(
        commands,
        "translate",
        "translate text with the same attention",
        """Translate texts, or the lines of a file, or those of stdin, to stdout, one line each;
texts of several sentences one by one. The cues of subtitles (--file of .srt or .vtt, or -f srt
or vtt) keep their times; a sentence that runs over several cues is translated as a whole, and cut
where its words looked from one cue to the next. The models in the package go from English to
French and German.""",
        """  asr translate "How are you?"
  asr translate --why --heat-map where.png "I'm cold."
  asr translate --to de -f jsonl < english.txt
  asr translate -m runs/one/model -m runs/two/model --file talk.srt > talk.fr.srt""",
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="none: lines of stdin")
    parser.add_argument("--file", type=Path, help="translate the lines (or cues) of this file")
    parser.add_argument(
        "-m",
        "--model",
        dest="models",
        action="append",
        default=[],
        metavar="DIR",
        help="folder of a translation model; several vote at every step",
    )
    parser.add_argument(
        "--to",
        metavar="LANGUAGE",
        help="which model of the package to translate with: fr (default) or de",
    )
    parser.add_argument(
        "-f",
        "--format",
        choices=TRANSLATIONS,
        metavar="FORMAT",
        help=f"one of {', '.join(TRANSLATIONS)} (default: text; of a subtitle file: its own); "
        "pharaoh gives source-target numbers of linked words",
    )
    parser.add_argument(
        "--why",
        dest="format",
        action="store_const",
        const="why",
        help="as -f why: each word with the source words it looked at, and their shares",
    )
    parser.add_argument("--beam", type=count, default=4, metavar="N", help="width (default: 4)")
    parser.add_argument(
        "--length-penalty",
        type=share,
        default=1.0,
        metavar="P",
        help="0 to 1: the power of the length that a beam divides by (default: 1, the mean)",
    )
    parser.add_argument(
        "--whole", action="store_true", help="take each text as one sentence, as a caption may be"
    )
    parser.add_argument(
        "--heat-map", type=Path, metavar="OUT", help="draw where the decoder looked: .png .svg .pdf"
    )
    parser.set_defaults(command="translate")
