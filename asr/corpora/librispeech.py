"""LibriSpeech (Panayotov et al. 2015), and mini LibriSpeech, in their official layout.

    LibriSpeech/SPEAKERS.TXT
    LibriSpeech/dev-clean/84/121123/84-121123.trans.txt     "84-121123-0000 GO DO YOU HEAR" a line
    LibriSpeech/dev-clean/84/121123/84-121123-0000.flac

`download` fetches and unpacks a subset, `prepare` writes manifests; both can be repeated.
"""

import importlib
import os
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from asr.corpora.manifest import Utterance, audio_duration, write_manifest
from asr.errors import UserError, install_command
from asr.text.lines import read_entries
from asr.text.normalize import normalize

SUBSETS: Final = (
    "train-clean-100",
    "train-clean-360",
    "train-other-500",
    "dev-clean",
    "dev-other",
    "test-clean",
    "test-other",
)
MINI_SUBSETS: Final = ("train-clean-5", "dev-clean-2")  # OpenSLR 31, not supported by torchaudio

_FOLDER: Final = "LibriSpeech"  # the top of every archive


def prepare(
    root: str | Path,
    output: str | Path,
    subsets: Sequence[str] | None = None,
    download: bool = False,
) -> list[Path]:
    """Write `<output>/<subset>.jsonl` for each subset and return these manifests.

    root: the folder that contains `LibriSpeech`, or `LibriSpeech` itself.
    subsets: names; None means all that exist.
    download: download missing subsets into `<root>/LibriSpeech` first, see `download`.

    Raises UserError if a subset is missing and not to be downloaded, a transcript cannot be read,
    or a recording has no transcript or the reverse.
    """
    root, output = Path(root), Path(output)
    if isinstance(subsets, str):
        raise TypeError("subsets must be several names; for one pass [name]")
    if download:
        _download_missing(root, subsets)
    corpus = _corpus(root)
    names = _present(corpus) if subsets is None else list(subsets)
    if not names:
        raise UserError(f"{corpus}: no subset of LibriSpeech here, wanted such as {SUBSETS[3]}")
    for name in names:
        _require_present(corpus, name)
    genders = _genders(corpus / "SPEAKERS.TXT")
    manifests = []
    for name in names:
        utterances = list(_utterances(corpus / name, genders))
        manifests.append(output / f"{name}.jsonl")
        write_manifest(manifests[-1], utterances)
    return manifests


def download(root: str | Path, subset: str) -> Path:
    """Download `<root>/LibriSpeech/<subset>` with torchaudio and return that folder.

    Does nothing if the folder exists. The archive is unpacked in a temporary folder and then moved,
    so an interruption never leaves an incomplete subset; a complete archive is not downloaded
    again. This temporarily needs twice the size of the archive on disk.

    Raises UserError if the subset is unknown, torchaudio cannot be loaded or the download fails.
    """
    root = Path(root)
    target = root / _FOLDER / subset
    if target.is_dir():
        return target
    if subset in MINI_SUBSETS:
        raise UserError(
            f"{subset} is part of mini LibriSpeech, which torchaudio cannot download: fetch "
            f"{subset}.tar.gz of OpenSLR resource SLR31 and unpack it in {root}"
        )
    if subset not in SUBSETS:
        raise UserError(f"got subset {subset!r}, wanted one of {', '.join(SUBSETS)}")
    dataset = _torchaudio_librispeech()
    staging = root / f".download-{subset}"
    staging.mkdir(parents=True, exist_ok=True)
    # Left by an interruption; torchaudio would treat it as complete.
    shutil.rmtree(staging / _FOLDER, ignore_errors=True)
    _fetch(dataset, staging, subset)
    _move_in(staging / _FOLDER, root / _FOLDER, subset)
    shutil.rmtree(staging)
    return target


def _torchaudio_librispeech() -> Any:
    """Return torchaudio's class LIBRISPEECH; torchaudio is imported nowhere else."""
    try:
        return importlib.import_module("torchaudio.datasets").LIBRISPEECH
    # OSError: a wheel built for CUDA, whose libraries do not load with a CPU build of torch.
    except (ImportError, OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"torchaudio, which downloads LibriSpeech, cannot be loaded ({reason}): "
            f"{install_command('torchaudio')} (a CUDA wheel does not load with CPU torch), or "
            "fetch and unpack the archive of OpenSLR resource SLR12 yourself"
        ) from error


def _fetch(dataset: Any, staging: Path, subset: str) -> None:
    try:
        dataset(staging, url=subset, download=True)
    except (tarfile.TarError, EOFError) as error:
        raise UserError(
            f"the archive of {subset} is damaged ({error}): delete {staging} and try again"
        ) from error
    # Closed network and HTTP errors are OSErrors, a wrong checksum is a RuntimeError.
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"cannot download {subset} ({error}): try again with the network open, or fetch "
            f"{subset}.tar.gz of OpenSLR resource SLR12 yourself and unpack it in {staging.parent}"
        ) from error


def _move_in(unpacked: Path, corpus: Path, subset: str) -> None:
    """Move the unpacked files, the subset last: once it exists, it is complete."""
    corpus.mkdir(exist_ok=True)
    for file in unpacked.glob("*.TXT"):
        os.replace(file, corpus / file.name)
    os.replace(unpacked / subset, corpus / subset)


def _download_missing(root: Path, subsets: Sequence[str] | None) -> None:
    if subsets is None:
        raise UserError("got no subsets to download, wanted their names: all of them take 60 GB")
    corpus = _corpus(root)
    missing = [subset for subset in subsets if not (corpus / subset).is_dir()]
    if missing and corpus == root:
        raise UserError(
            f"{root} contains the subsets; to download {', '.join(missing)}, give its parent "
            f"folder, in which they are in {_FOLDER}"
        )
    for subset in missing:
        download(root, subset)


def _corpus(root: Path) -> Path:
    """Return the folder of the subsets: `root/LibriSpeech`, or `root` if it contains subsets."""
    inner = root / _FOLDER
    return root if not inner.is_dir() and _present(root) else inner


def _present(corpus: Path) -> list[str]:
    if not corpus.is_dir():
        return []
    known = (*SUBSETS, *MINI_SUBSETS)
    return [name for name in known if (corpus / name).is_dir()]


def _require_present(corpus: Path, subset: str) -> None:
    if (corpus / subset).is_dir():
        return
    there = ", ".join(_present(corpus)) or "none"
    if subset in MINI_SUBSETS:
        advice = f"fetch {subset}.tar.gz of OpenSLR resource SLR31 and unpack it here"
    elif subset in SUBSETS:
        advice = "download it (OpenSLR resource SLR12)"
    else:
        advice = f"known are {', '.join((*SUBSETS, *MINI_SUBSETS))}"
    raise UserError(f"{corpus}: no subset {subset!r} (found: {there}); {advice}")


def _genders(file: Path) -> dict[str, str]:
    """Read the gender of each speaker, lines `14   | F | train-clean-360  | 25.03 | Name`."""
    if not file.is_file():
        return {}
    genders = {}
    for _, line in read_entries(file, comment=";"):
        fields = [field.strip() for field in line.split("|")]
        if len(fields) > 2:
            genders[fields[0]] = fields[1]
    return genders


def _utterances(subset: Path, genders: dict[str, str]) -> Iterator[Utterance]:
    """Yield utterances in the order of speaker, chapter and number, compared as strings."""
    chapters = sorted(folder for folder in subset.glob("*/*") if folder.is_dir())
    if not chapters:
        raise UserError(f"{subset}: no folders of speakers and chapters; unpack the archive again")
    for chapter in chapters:
        speaker = chapter.parent.name
        texts = _transcripts(chapter / f"{speaker}-{chapter.name}.trans.txt")
        _require_whole(chapter, texts)
        for identifier, written in texts.items():
            audio = chapter / f"{identifier}.flac"
            yield Utterance(
                id=identifier,
                audio=audio,
                text=normalize(written),
                duration=audio_duration(audio),
                speaker=speaker,
                gender=genders.get(speaker),
                written=written,
            )


def _transcripts(file: Path) -> dict[str, str]:
    """Read the texts of a chapter by utterance id, sorted by id."""
    texts = {}
    for number, line in read_entries(file):
        identifier, _, text = line.partition(" ")
        if not text:
            raise UserError(f"{file}:{number}: got {line!r}, wanted an id, a space and a text")
        texts[identifier] = text
    return dict(sorted(texts.items()))


def _require_whole(chapter: Path, texts: dict[str, str]) -> None:
    recorded = {file.stem for file in chapter.glob("*.flac")}
    silent, untold = texts.keys() - recorded, recorded - texts.keys()
    for missing, what in ((silent, "recording"), (untold, "text")):
        if missing:
            raise UserError(
                f"{chapter}: {len(missing)} utterances have no {what}, the first is "
                f"{min(missing)}; unpack the archive again"
            )
