"""Manifests: written manifests are read back, and errors are reported with their line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asr.corpora.manifest import (
    Utterance,
    read_manifest,
    read_noise,
    read_responses,
    select,
    write_manifest,
)
from asr.corpora.manifest_checks import check_manifest, require_clean, require_clean_noise
from asr.errors import UserError
from asr.text.vocabulary import SPECIALS, Vocabulary

SAMPLES = Path(__file__).parents[2] / "data" / "speech" / "manifest.jsonl"
ENGLISH = Vocabulary.characters().inventory


def write_audio(path: Path, seconds: float = 1.0, rate: int = 16_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).normal(0, 0.1, round(seconds * rate))
    soundfile.write(path, noise, rate)
    return path


def write_lines(path: Path, *records: dict[str, object] | str) -> Path:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def good(**changes: object) -> dict[str, object]:
    return {"audio": "a.wav", "text": "Good day", "duration": 1.0} | changes


def problems(path: Path, *symbols: str) -> list[tuple[int, str]]:
    return [tuple(problem) for problem in check_manifest(path, symbols or None)]


# --- reading and writing ---------------------------------------------------------------------


def test_keys_are_read_and_others_ignored(tmp_path: Path) -> None:
    line = good(id="x", speaker="7", gender="F", licence="CC0", norm="good  day!")
    (utterance,) = read_manifest(write_lines(tmp_path / "m.jsonl", line))
    assert utterance == Utterance(
        "x", tmp_path / "a.wav", "good  day!", 1.0, "7", "F", written="Good day"
    )


def test_text_is_normalised_where_norm_is_absent(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "m.jsonl", good(text="It's 5 o'clock."))
    assert read_manifest(path)[0].text == "it's five o'clock"


def test_what_is_absent_is_made_up_from_the_audio(tmp_path: Path) -> None:
    write_audio(tmp_path / "in" / "a.b.wav", 0.75, rate=22_050)
    path = write_lines(tmp_path / "m.jsonl", {"audio": "in/a.b.wav", "text": "hi", "speaker": ""})
    (utterance,) = read_manifest(path)
    assert (utterance.id, utterance.speaker, utterance.gender) == ("in/a.b", None, None)
    assert utterance.duration == pytest.approx(0.75, abs=1e-4)


@pytest.fixture
def climbing(tmp_path: Path) -> Path:
    """Return a manifest in lists/ of audio in the folder above it, relative and absolute."""
    audio = write_audio(tmp_path / "a.wav")
    (tmp_path / "lists").mkdir()
    return write_lines(
        tmp_path / "lists" / "m.jsonl",
        {"audio": "../lists/../a.wav", "text": "hi"},
        {"audio": str(audio), "text": "hi"},
    )


def test_audio_outside_the_folder_of_the_manifest_is_refused(climbing: Path) -> None:
    wanted = rf"{climbing}:1: audio outside of {climbing.parent}: .*a.wav; .*--audio-in DIR"
    for read in (read_manifest, read_noise, read_responses, require_clean_noise):
        with pytest.raises(UserError, match=wanted):
            read(climbing)
    assert [line for line, what in problems(climbing) if "outside of" in what] == [1, 2]


def test_audio_in_another_folder_is_read_where_it_is_allowed(climbing: Path) -> None:
    allowed = climbing.parent.parent
    assert [u.duration for u in read_manifest(climbing, allowed)] == [1.0, 1.0]
    assert check_manifest(climbing, audio_in=allowed) == []
    assert len(read_noise(climbing, allowed)) == 2
    require_clean_noise(climbing, allowed)


def test_a_folder_whose_name_only_begins_like_the_allowed_one_is_outside(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    path = write_lines(tmp_path / "mine" / "m.jsonl", good(audio="../mine2/a.wav"))
    with pytest.raises(UserError, match="outside of"):
        read_manifest(path)


def test_a_link_in_the_folder_may_lead_out_of_it(tmp_path: Path) -> None:
    write_audio(tmp_path / "store" / "a.wav")
    (tmp_path / "mine").mkdir()
    path = write_lines(tmp_path / "mine" / "m.jsonl", good(audio="store/a.wav"))
    (tmp_path / "mine" / "store").symlink_to(tmp_path / "store")
    assert check_manifest(path) == []


def test_blank_lines_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text("\ufeff\r\n" + json.dumps(good()) + "\r\n\r\n", encoding="utf-8")
    assert len(read_manifest(path)) == 1


WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.builds(
            Utterance,
            id=WORDS.filter(bool),
            audio=st.sampled_from(["a.flac", "deep/er/b.opus", "ö ü.wav"]).map(Path),
            text=WORDS,
            duration=st.floats(0.01, 1e6),
            speaker=st.none() | WORDS.filter(bool),
            gender=st.sampled_from([None, "F", "M"]),
            written=WORDS,
        ),
        min_size=1,
        unique_by=lambda utterance: utterance.id,
    ),
    st.booleans(),
)
def test_written_manifests_read_back_the_same(
    tmp_path: Path, utterances: list[Utterance], inside: bool
) -> None:
    folder = tmp_path / "corpus"
    placed = [
        Utterance(**(vars(u) | {"audio": (folder if inside else tmp_path / "else") / u.audio}))
        for u in utterances
    ]
    write_manifest(folder / "m.jsonl", placed)
    assert read_manifest(folder / "m.jsonl", tmp_path) == placed


def test_a_manifest_moves_together_with_its_audio(tmp_path: Path) -> None:
    audio = write_audio(tmp_path / "old" / "sound" / "a.wav")
    write_manifest(tmp_path / "old" / "m.jsonl", [Utterance("a", audio, "hi", 1.0)])
    (tmp_path / "old").rename(tmp_path / "new")
    assert check_manifest(tmp_path / "new" / "m.jsonl") == []


def test_a_failed_write_leaves_the_older_manifest(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "m.jsonl", good(id="old"))

    def broken():
        yield Utterance("new", tmp_path / "a.wav", "hi", 1.0)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_manifest(path, broken())
    assert [u.id for u in read_manifest(path)] == ["old"]
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("{broken", "JSON"),
        ('["a.wav", "hi"]', "object"),
        ('{"audio": "a.wav"}', '"text" is missing'),
        ('{"text": "hi"}', '"audio" is missing'),
        ('{"audio": "", "text": "hi"}', "path"),
        ('{"audio": "a.wav", "text": 5}', 'for "text", wanted a string'),
        ('{"audio": "a.wav", "text": "hi", "norm": ["hi"]}', 'for "norm", wanted a string'),
        ('{"audio": "a.wav", "text": "hi", "duration": "1"}', "seconds"),
        ('{"audio": "a.wav", "text": "hi", "duration": true}', "seconds"),
        ('{"audio": "a.wav", "text": "hi", "duration": NaN}', "seconds"),
        ('{"audio": "a.wav", "text": "hi", "duration": 0}', "seconds"),
        ('{"audio": "absent.wav", "text": "hi"}', "no such audio"),
        ('{"audio": "m.jsonl", "text": "hi"}', "audio"),
        ('{"audio": "good.wav", "text": "hi", "duration": 1}', "already used in line 1"),
    ],
)
def test_a_bad_line_is_told_with_file_and_line(tmp_path: Path, line: str, wanted: str) -> None:
    first = good(audio="good.wav")
    write_audio(tmp_path / "good.wav")
    path = write_lines(tmp_path / "m.jsonl", first, "", line)
    with pytest.raises(UserError) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert wanted in str(caught.value)
    assert "\n" not in str(caught.value)
    ((number, what),) = problems(path)
    assert number == 3 and wanted in what


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe\x00"])
def test_files_that_are_no_manifest(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(str(path))):
        read_manifest(path)
    with pytest.raises(UserError, match=re.escape(str(path))):
        require_clean(path)


def test_absent_manifests_and_folders_are_user_errors(tmp_path: Path) -> None:
    table = tmp_path / "clips.CSV"
    table.write_text("audio,text\na.wav,hello\n", "utf-8")
    for path, message in (
        (tmp_path / "absent.jsonl", "cannot be read"),
        (tmp_path, f"a folder; wanted a manifest: asr prepare folder {tmp_path} mine.jsonl"),
        (table, f"a table; wanted a manifest: asr prepare table {table} mine.jsonl"),
    ):
        for reader in (read_manifest, check_manifest, read_noise):
            with pytest.raises(UserError, match=re.escape(message)):
                reader(path)


# --- checking --------------------------------------------------------------------------------


def test_the_samples_are_clean() -> None:
    assert check_manifest(SAMPLES, ENGLISH) == []
    utterances = read_manifest(SAMPLES)
    assert len({u.speaker for u in utterances}) == len(utterances) == 6
    assert sum(u.duration for u in utterances) < 60
    assert sum(u.audio.stat().st_size for u in utterances) < 700_000


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"audio": "absent.wav"}, "no such audio"),
        ({"audio": "m.jsonl"}, "m.jsonl"),
        ({"text": "..."}, "is empty after normalisation"),
        ({"norm": "   "}, "is empty after normalisation"),
        ({"norm": "naïve ñandú"}, "outside the vocabulary: 'ï' 'ñ' 'ú'"),
        ({"text": "far too many words for a single second"}, "characters in"),
        ({"duration": 1.2}, "given as 1.2 s, the audio has 1.000 s"),
        ({"audio": "short.wav", "duration": 0.05, "text": "a"}, "0.050 s of audio"),
        ({"audio": "long.wav", "duration": 121}, "121.000 s of audio"),
        ({"audio": "nothing.wav", "text": ""}, "cut off or empty"),
    ],
)
def test_each_fault_is_found_alone(tmp_path: Path, changes: dict[str, object], wanted: str) -> None:
    write_audio(tmp_path / "a.wav")
    write_audio(tmp_path / "short.wav", 0.05)
    write_audio(tmp_path / "long.wav", 121, rate=1000)
    write_audio(tmp_path / "nothing.wav", 0)
    path = write_lines(tmp_path / "m.jsonl", good(id="before"), good(**changes), good(id="after"))
    ((number, what),) = problems(path, *ENGLISH)
    assert number == 2
    assert wanted in what


def test_clean_lines_have_no_problems(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav")
    write_audio(tmp_path / "b.ogg")
    noise = good(id="noise", text="")
    near = good(id="near", duration=1.04)
    whole = good(id="ogg", audio="b.ogg")
    assert problems(write_lines(tmp_path / "m.jsonl", good(), noise, near, whole), *ENGLISH) == []


@pytest.mark.parametrize("ending", ["flac", "wav", "ogg", "opus", "mp3"])
def test_cut_off_audio_is_found(tmp_path: Path, ending: str) -> None:
    audio = tmp_path / f"a.{ending}"
    noise = np.random.default_rng(0).normal(0, 0.1, 4 * 16_000)
    if ending == "opus":
        soundfile.write(audio, noise, 16_000, format="OGG", subtype="OPUS")
    else:
        soundfile.write(audio, noise, 16_000)
    path = write_lines(tmp_path / "m.jsonl", good(audio=audio.name, duration=4.0))
    assert problems(path) == []
    content = audio.read_bytes()
    audio.write_bytes(content[: len(content) // 2])
    assert problems(path) != []


def test_symbols_may_be_subword_pieces(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav")
    path = write_lines(tmp_path / "m.jsonl", good(norm="ab ba"), good(id="b", norm="blank"))
    assert problems(path, *SPECIALS, "\u2581a", "ba") == [
        (2, "the text has characters outside the vocabulary: 'k' 'l' 'n'")
    ]


def test_require_clean_counts_all_and_shows_the_first(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav")
    path = write_lines(tmp_path / "m.jsonl", *[good(id=str(i), duration=9) for i in range(7)])
    with pytest.raises(UserError) as caught:
        require_clean(path)
    lines = str(caught.value).splitlines()
    assert "7 problems" in lines[0]
    assert [line.split(": ")[0].strip() for line in lines[1:6]] == [
        f"{path}:{number}" for number in range(1, 6)
    ]
    assert lines[6].strip() == "and 2 more"
    require_clean(write_lines(tmp_path / "clean.jsonl", good()), ENGLISH)


def test_utterances_that_are_left_out_are_not_checked(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav")
    bad, clean = good(id="bad", duration=9), good(id="clean")
    path = write_lines(tmp_path / "m.jsonl", bad, clean)
    require_clean(path, left_out={"bad"})
    with pytest.raises(UserError, match="1 problem"):
        require_clean(path, left_out={"clean"})
    twice = write_lines(tmp_path / "twice.jsonl", clean, clean)
    with pytest.raises(UserError, match="1 problem"):
        require_clean(twice, left_out={"clean"})


# --- selecting -------------------------------------------------------------------------------


def test_select_keeps_the_listed_in_their_order(tmp_path: Path) -> None:
    utterances = [Utterance(i, tmp_path / i, "", 1.0) for i in "abc"]
    ids = tmp_path / "ids.txt"
    ids.write_text("# two of three\nc\n\n  a \n")
    assert [u.id for u in select(utterances, ids)] == ["c", "a"]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [("a\nz\n", ":2: .*'z'"), ("a\na\n", ":2: .*line 1"), ("# a\n", "no ids")],
)
def test_select_refuses_lists_that_do_not_fit(tmp_path: Path, content: str, wanted: str) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text(content)
    with pytest.raises(UserError, match=wanted):
        select([Utterance("a", tmp_path / "a", "", 1.0)], ids)
