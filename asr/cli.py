"""The command line: arguments and exit statuses. Each command imports its room when called."""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from asr.commands.arguments import command_line
from asr.commands.options import Decoding
from asr.commands.output import require_different
from asr.commands.serve_arguments import service_limits
from asr.errors import UserError, exit_status

_MMAP_THRESHOLD: Final = -3  # M_MMAP_THRESHOLD of malloc.h
_LARGE_ARRAY: Final = 4 << 20  # bytes
_TRIM_THRESHOLD: Final = -1  # M_TRIM_THRESHOLD
_KEPT: Final = 16 << 20  # bytes


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 if all went well, 2 if anything failed.

    Mistakes of the user are one line on stderr. `--help`, `--version` and wrong arguments leave
    by SystemExit, as argparse does.
    """
    return exit_status(lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments:
        command_line().print_help()
        return 0
    given = command_line(arguments[0]).parse_args(arguments)
    require_different(getattr(given, "outputs", None) or ())
    return _COMMANDS[given.command](given)


def _limit_resources() -> None:
    """Limit threads and memory of this process; before NumPy and torch are imported.

    One thread, unless OMP_NUM_THREADS is set: a search computes thousands of small products. Two
    threads synchronise at each product: this saves little time on an idle machine and takes ten
    times as long on a busy one.

    Where the C library is glibc, freed arrays of 4 MB or more go back to the system: by default
    this size grows to that of the largest freed array, and the process keeps what it freed. Of
    smaller ones up to 16 MB are kept: by default a search would give back and ask again for the
    arrays of each step, which takes a fifteenth of its time.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with suppress(OSError, TypeError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGE_ARRAY)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)


def _transcribe(given: argparse.Namespace) -> int:
    if given.live or given.microphone:
        return _live(given)
    if not given.paths:
        raise UserError("no recording; wanted files, folders or - (see asr transcribe --help)")
    _limit_resources()
    from asr.commands.transcribe import run

    return run(
        paths=given.paths,
        model=given.model,
        outputs=given.outputs,
        kinds=given.formats,
        decoding=Decoding.given(given),
        batch_seconds=given.batch_seconds,
        longest=given.longest,
        plain=given.plain,
        digits=given.digits,
        n_best=given.n_best,
        device=given.device,
        runtime=given.runtime,
        mark_below=given.mark_below,
        keep_low_confidence=given.keep_low_confidence,
    )


def _live(given: argparse.Namespace) -> int:
    if given.outputs:
        raise UserError("live text goes to stdout; redirect it in place of --output")
    if given.mark_below is not None or given.keep_low_confidence:
        raise UserError("--mark-below and --keep-low-confidence are not for live text")
    if len(given.formats) > 1:
        raise UserError(f"live text has one format; got --format {' and '.join(given.formats)}")
    _limit_resources()
    from asr.commands.live import run

    return run(
        paths=given.paths,
        microphone=given.microphone,
        rate=given.rate,
        model=given.model,
        kind=next(iter(given.formats), None),
        decoding=Decoding.given(given),
        plain=given.plain,
        digits=given.digits,
        device=given.device,
        runtime=given.runtime,
    )


def _align(given: argparse.Namespace) -> int:
    _limit_resources()
    from asr.commands.align import run

    return run(
        audio=given.audio,
        text=given.text,
        model=given.model,
        outputs=given.outputs,
        decoding=Decoding.given(given),
        device=given.device,
        runtime=given.runtime,
        encoding=given.encoding,
    )


def _read(given: argparse.Namespace) -> int:
    if given.follow or given.microphone:
        return _follow(given)
    if given.audio is None:
        raise UserError("no recording; wanted a file or - (see asr read --help)")
    _limit_resources()
    from asr.commands.read import run

    return run(
        audio=given.audio,
        text=given.text,
        model=given.model,
        outputs=given.outputs,
        kind=given.format,
        decoding=Decoding.given(given),
        device=given.device,
        runtime=given.runtime,
        encoding=given.encoding,
    )


def _follow(given: argparse.Namespace) -> int:
    _limit_resources()
    from asr.commands.follow import run

    return run(
        audio=given.audio,
        text=given.text,
        microphone=given.microphone,
        rate=given.rate,
        model=given.model,
        outputs=given.outputs,
        kind=given.format,
        decoding=Decoding.given(given),
        device=given.device,
        runtime=given.runtime,
        encoding=given.encoding,
    )


def _let_threads_sleep() -> None:
    """Make idle threads of torch sleep, not spin, unless OMP_WAIT_POLICY is set; before its import.

    Where other programs run, spinning threads keep those from a core that have work to do: three
    steps of fine-tuning with two threads took 67 s in place of more than 500.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _train(given: argparse.Namespace) -> int:
    _let_threads_sleep()
    from asr.commands.train import run

    return run(
        config=given.config,
        folder=given.folder,
        data=given.data,
        overrides=given.overrides,
        continue_anyway=given.continue_anyway,
        start=given.start,
        dev=given.dev,
        audio_in=given.audio_in,
    )


def _evaluate(given: argparse.Namespace) -> int:
    _limit_resources()
    from asr.commands.evaluate import run
    from asr.commands.evaluate_speech import SpeechOptions
    from asr.commands.evaluate_translation import TranslationOptions

    return run(
        data=given.data,
        model=given.model,
        limit=given.limit,
        speech=SpeechOptions(
            given.ids, Decoding.given(given), given.speed, given.attention, given.audio_in
        ),
        translation=TranslationOptions(
            given.to, given.beam, given.length_penalty, given.whole, given.heat_map
        ),
        as_json=given.json,
        output=given.output,
        device=given.device,
        runtime=given.runtime,
    )


def _score(given: argparse.Namespace) -> int:
    from asr.commands.score import run

    return run(given.reference, given.hypothesis, given.normalize, given.json, given.worst)


def _score_alignment(given: argparse.Namespace) -> int:
    from asr.commands.score_alignment import run

    return run(given.reference, given.hypothesis, given.json)


def _prepare_librispeech(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_librispeech

    return run_librispeech(given.root, given.output, given.subsets, given.download)


def _prepare_folder(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_folder

    return run_folder(given.audio, given.manifest, given.dev, given.dev_share)


def _prepare_table(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_table

    return run_table(given.table, given.audio, given.manifest, given.dev, given.dev_share)


def _prepare_commonvoice(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_common_voice

    return run_common_voice(given.release, given.table, given.manifest, given.dev, given.dev_share)


def _prepare_ljspeech(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_ljspeech

    return run_ljspeech(given.source, given.manifest, given.dev, given.dev_share)


def _prepare_kaldi(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_kaldi

    return run_kaldi(given.source, given.manifest, given.dev, given.dev_share)


def _prepare_nemo(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_nemo

    return run_nemo(given.source, given.manifest, given.dev, given.dev_share)


def _prepare_lhotse(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_lhotse

    return run_lhotse(given.source, given.manifest, given.dev, given.dev_share)


def _prepare_webdataset(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_webdataset

    return run_webdataset(given.source, given.manifest, given.dev, given.dev_share)


def _prepare_shards(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_shards

    return run_shards(given.manifest, given.folder, given.megabytes, given.audio_in)


def _prepare_pseudo_labels(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_pseudo_labels

    return run_pseudo_labels(given.transcripts, given.folder, given.keep)


def _prepare_check(given: argparse.Namespace) -> int:
    from asr.commands.prepare import run_check

    return run_check(given.manifest, given.audio_in)


def _check(given: argparse.Namespace) -> int:
    _limit_resources()
    from asr.commands.check import run

    return run(given.path, given.renew)


def _export(given: argparse.Namespace) -> int:
    _limit_resources()
    from asr.commands.export import run

    return run(given.model, given.folder, given.int8)


def _shrink(given: argparse.Namespace) -> int:
    _limit_resources()
    from asr.commands.shrink import run

    return run(given.model, given.folder, given.to, given.bits)


def _translate(given: argparse.Namespace) -> int:
    _limit_resources()
    from asr.commands.translate import run

    return run(
        texts=given.texts,
        file=given.file,
        models=given.models,
        to=given.to,
        kind=given.format,
        beam=given.beam,
        length_penalty=given.length_penalty,
        whole=given.whole,
        heat_map=given.heat_map,
        device=given.device,
        runtime=given.runtime,
        outputs=given.outputs,
        encoding=given.encoding,
    )


def _serve(given: argparse.Namespace) -> int:
    _limit_resources()
    from asr.commands.serve import run

    return run(
        model=given.model,
        host=given.host,
        port=given.port,
        api_key=given.api_key,
        limits=service_limits(given),
        decoding=Decoding.given(given),
        batch_seconds=given.batch_seconds,
        device=given.device,
        runtime=given.runtime,
    )


_COMMANDS = {
    "transcribe": _transcribe,
    "align": _align,
    "read": _read,
    "train": _train,
    "evaluate": _evaluate,
    "score": _score,
    "score_alignment": _score_alignment,
    "prepare_librispeech": _prepare_librispeech,
    "prepare_folder": _prepare_folder,
    "prepare_table": _prepare_table,
    "prepare_commonvoice": _prepare_commonvoice,
    "prepare_ljspeech": _prepare_ljspeech,
    "prepare_kaldi": _prepare_kaldi,
    "prepare_nemo": _prepare_nemo,
    "prepare_lhotse": _prepare_lhotse,
    "prepare_webdataset": _prepare_webdataset,
    "prepare_shards": _prepare_shards,
    "prepare_pseudo_labels": _prepare_pseudo_labels,
    "prepare_check": _prepare_check,
    "translate": _translate,
    "check": _check,
    "export": _export,
    "shrink": _shrink,
    "serve": _serve,
}
