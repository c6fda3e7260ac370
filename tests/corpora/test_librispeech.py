"""Manifests from LibriSpeech's layout; downloads are complete or absent. No network access."""

import sys
import tarfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import soundfile

from asr.commands.prepare import run_librispeech
from asr.corpora import check_manifest, librispeech, read_manifest, select
from asr.corpora.librispeech import download, prepare
from asr.errors import UserError

TEXTS = {
    "84-121123-0000": "GO DO YOU HEAR",
    "84-121123-0001": "BUT IN LESS THAN FIVE MINUTES",
    "84-121550-0000": "IT'S A DREAM",
    "174-50561-0000": "FORGOTTEN TOO",
}
SPEAKERS = """\
; id | sex | subset | minutes | name
84   | F | dev-clean        |  8.02 | A Reader
1740 | M | dev-clean        |  8.05 | another | reader
"""
RECIPES = Path(__file__).parents[2] / "recipes" / "librispeech"
SAMPLES = Path(__file__).parents[2] / "data" / "speech" / "manifest.jsonl"


def make_subset(root: Path, subset: str = "dev-clean", texts: dict[str, str] = TEXTS) -> Path:
    folder = root / "LibriSpeech" / subset
    for identifier, text in texts.items():
        speaker, chapter, _ = identifier.split("-")
        place = folder / speaker / chapter
        place.mkdir(parents=True, exist_ok=True)
        with (place / f"{speaker}-{chapter}.trans.txt").open("a") as file:
            file.write(f"{identifier} {text}\n")
        noise = np.random.default_rng(0).normal(0, 0.1, 32_000)
        soundfile.write(place / f"{identifier}.flac", noise, 16_000)
    (root / "LibriSpeech" / "SPEAKERS.TXT").write_text(SPEAKERS)
    return folder


# --- preparing -------------------------------------------------------------------------------


def test_every_utterance_is_listed_with_its_text_and_speaker(tmp_path: Path) -> None:
    folder = make_subset(tmp_path)
    (manifest,) = prepare(tmp_path, tmp_path / "lists")
    assert manifest == tmp_path / "lists" / "dev-clean.jsonl"
    utterances = {u.id: u for u in read_manifest(manifest, tmp_path)}
    assert {i: u.written for i, u in utterances.items()} == TEXTS
    assert utterances["84-121550-0000"].text == "it's a dream"
    assert utterances["84-121550-0000"].audio == folder / "84" / "121550" / "84-121550-0000.flac"
    assert utterances["84-121550-0000"].duration == pytest.approx(2.0)
    assert {(u.speaker, u.gender) for u in utterances.values()} == {("84", "F"), ("174", None)}
    assert check_manifest(manifest, audio_in=tmp_path) == []


def test_by_default_the_manifests_lie_in_the_corpora_whose_audio_they_may_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_subset(tmp_path)
    assert run_librispeech(tmp_path, None, None, download=False) == 0
    assert capsys.readouterr().out.startswith(str(tmp_path / "dev-clean.jsonl"))
    assert len(read_manifest(tmp_path / "dev-clean.jsonl")) == len(TEXTS)


def test_the_order_is_that_of_the_ids_as_strings(tmp_path: Path) -> None:
    make_subset(tmp_path, texts=dict(reversed(TEXTS.items())))
    (manifest,) = prepare(tmp_path, tmp_path)
    assert [u.id for u in read_manifest(manifest)] == sorted(TEXTS)


def test_subsets_are_found_chosen_and_prepared_again(tmp_path: Path) -> None:
    for subset in ("dev-clean-2", "train-clean-5", "test-other"):
        make_subset(tmp_path, subset)
    every = prepare(tmp_path, tmp_path / "lists")
    assert {m.stem for m in every} == {"dev-clean-2", "train-clean-5", "test-other"}
    before = every[0].read_bytes()
    assert prepare(tmp_path / "LibriSpeech", tmp_path / "lists", [every[0].stem]) == every[:1]
    assert every[0].read_bytes() == before


def test_speakers_without_the_list_have_no_gender(tmp_path: Path) -> None:
    make_subset(tmp_path)
    (tmp_path / "LibriSpeech" / "SPEAKERS.TXT").unlink()
    (manifest,) = prepare(tmp_path, tmp_path)
    assert {u.gender for u in read_manifest(manifest)} == {None}


def test_what_is_not_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no subset of LibriSpeech"):
        prepare(tmp_path, tmp_path)
    make_subset(tmp_path)
    for subset, advice in [("test-clean", "SLR12"), ("train-clean-5", "SLR31"), ("x", "known are")]:
        with pytest.raises(UserError, match=rf"found: dev-clean\).*{advice}"):
            prepare(tmp_path, tmp_path / "lists", ["dev-clean", subset])
    assert not (tmp_path / "lists").exists()


@pytest.mark.parametrize(
    ("victim", "wanted"),
    [
        ("84/121123/84-121123-0001.flac", "1 utterances have no recording.*84-121123-0001"),
        ("84/121123/84-121123.trans.txt", r"trans\.txt: cannot be read"),
    ],
)
def test_half_a_chapter_is_refused(tmp_path: Path, victim: str, wanted: str) -> None:
    (make_subset(tmp_path) / victim).unlink()
    with pytest.raises(UserError, match=wanted):
        prepare(tmp_path, tmp_path / "lists")
    assert not (tmp_path / "lists").exists()


def test_lines_and_recordings_without_a_text_are_refused(tmp_path: Path) -> None:
    transcripts = make_subset(tmp_path) / "84" / "121123" / "84-121123.trans.txt"
    transcripts.write_text("84-121123-0000 GO DO YOU HEAR\n")
    with pytest.raises(UserError, match=r"no text.*84-121123-0001"):
        prepare(tmp_path, tmp_path / "lists")
    transcripts.write_text("84-121123-0000\n")
    with pytest.raises(UserError, match=r"trans\.txt:1: "):
        prepare(tmp_path, tmp_path / "lists")


def test_an_empty_subset_is_refused(tmp_path: Path) -> None:
    (tmp_path / "LibriSpeech" / "dev-clean").mkdir(parents=True)
    with pytest.raises(UserError, match="no folders of speakers"):
        prepare(tmp_path, tmp_path)


# --- downloading -----------------------------------------------------------------------------


class Server:
    """A fake of torchaudio's LIBRISPEECH: keeps an archive, unpacks if the folder is absent."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.fetched = 0
        self.fault: Exception | None = None

    def __call__(self, root: Path, url: str, download: bool) -> None:
        assert download
        if (root / "LibriSpeech" / url).is_dir():
            return
        arrived = root / f"{url}.tar"
        if not arrived.exists():
            self.fetched += 1
            arrived.write_bytes(self.archive.read_bytes())
        with tarfile.open(arrived) as tar:
            if self.fault:
                tar.extract("LibriSpeech/dev-clean/84/121123/84-121123.trans.txt", root)
                raise self.fault
            tar.extractall(root, filter="data")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    make_subset(tmp_path / "origin")
    with tarfile.open(tmp_path / "origin.tar", "w") as tar:
        tar.add(tmp_path / "origin" / "LibriSpeech", "LibriSpeech")
    module = ModuleType("torchaudio.datasets")
    server = Server(tmp_path / "origin.tar")
    monkeypatch.setattr(module, "LIBRISPEECH", server, raising=False)
    monkeypatch.setitem(sys.modules, "torchaudio", ModuleType("torchaudio"))
    monkeypatch.setitem(sys.modules, "torchaudio.datasets", module)
    return server


def test_download_then_prepare_then_nothing_more(tmp_path: Path, server: Server) -> None:
    root = tmp_path / "new" / "root"
    for _ in range(2):
        (manifest,) = prepare(root, tmp_path / "lists", ["dev-clean"], download=True)
    assert server.fetched == 1
    assert {u.gender for u in read_manifest(manifest, root)} == {"F", None}
    assert {path.name for path in root.iterdir()} == {"LibriSpeech"}


def test_an_interrupted_download_leaves_nothing_that_looks_whole(
    tmp_path: Path, server: Server
) -> None:
    root = tmp_path / "root"
    server.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        download(root, "dev-clean")
    assert not (root / "LibriSpeech").exists()
    server.fault = None
    assert len(list(download(root, "dev-clean").glob("*/*/*.flac"))) == len(TEXTS)
    assert server.fetched == 1


@pytest.mark.parametrize(
    ("fault", "wanted"),
    [
        (OSError("network is unreachable"), "unreachable.*network open.*SLR12"),
        (RuntimeError("invalid hash value"), "invalid hash value"),
        (tarfile.ReadError("unexpected end of data"), "damaged.*delete"),
        (EOFError("ended"), "damaged.*delete"),
    ],
)
def test_failed_downloads_are_one_line(
    tmp_path: Path, server: Server, fault: Exception, wanted: str
) -> None:
    server.fault = fault
    with pytest.raises(UserError, match=wanted) as caught:
        prepare(tmp_path / "root", tmp_path, ["dev-clean"], download=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "fault", [ImportError("no module"), OSError("libcudart.so.13: not found\nsecond line")]
)
def test_torchaudio_that_cannot_load_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def refuse(name: str) -> None:
        raise fault

    monkeypatch.setattr(librispeech.importlib, "import_module", refuse)
    wanted = r"pip install -c constraints\.txt -e '\.\[torchaudio\]' .*SLR12"
    with pytest.raises(UserError, match=wanted) as caught:
        download(tmp_path, "dev-clean")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_names_that_cannot_be_downloaded(tmp_path: Path, server: Server) -> None:
    with pytest.raises(UserError, match="SLR31"):
        download(tmp_path, "train-clean-5")
    with pytest.raises(UserError, match="wanted one of"):
        download(tmp_path, "../dev-clean")
    with pytest.raises(UserError, match="their names"):
        prepare(tmp_path, tmp_path, download=True)
    make_subset(tmp_path, "test-other")
    with pytest.raises(UserError, match="parent folder"):
        prepare(tmp_path / "LibriSpeech", tmp_path, ["dev-clean"], download=True)
    assert server.fetched == 0


# --- the fixed development lists -------------------------------------------------------------


def listed(name: str) -> list[str]:
    lines = (RECIPES / name).read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_the_development_lists_share_no_speaker() -> None:
    halves = [listed("dev-choose.txt"), listed("dev-report.txt")]
    speakers = [{identifier.split("-")[0] for identifier in half} for half in halves]
    assert [len(half) for half in halves] == [692, 633]
    assert [len(half) for half in speakers] == [10, 10]
    assert not speakers[0] & speakers[1]


def test_the_samples_are_of_the_half_that_is_reported(tmp_path: Path) -> None:
    samples = read_manifest(SAMPLES)
    assert {u.id for u in samples} <= set(listed("dev-report.txt"))
    with pytest.raises(UserError, match="another corpus"):
        select(samples, RECIPES / "dev-report.txt")
