"""Transcripts with punctuation and case: what is written, and what stays bare."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tiny_model import write_tiny_model
from tiny_punctuator import use_punctuator, write_tiny_punctuator

from asr import cli, model_folder
from asr.audio.read import read
from asr.corpora.manifest import read_manifest
from asr.errors import UserError
from asr.inference.recognizer import Recognizer
from asr.inference.sources import Finished
from asr.inference.spelling import punctuated, with_digits
from asr.models.folder import copy_folder
from asr.results import Segment, StopReason, Transcript, Word
from asr.runtime.punctuator import Punctuator
from asr.text.names import Names

ROOT = Path(__file__).parents[2]
FLAC = ROOT / "data" / "speech" / "5683-32866-0027.flac"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a speech model that names a model of punctuation and case of the package."""
    monkeypatch.setattr(model_folder, "PRETRAINED", tmp_path / "package")
    write_tiny_punctuator(tmp_path / "package" / "writer")
    return use_punctuator(write_tiny_model(tmp_path / "model"), "writer")


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.wav"
    soundfile.write(path, read(FLAC).samples[8000:32000], 16000)
    return path


def output(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert cli.main([str(each) for each in arguments]) == 0
    return capsys.readouterr().out


def _segment(start: float, words: list[str]) -> Segment:
    """Return a segment of one second; its words last 0.1 s each and grow in confidence."""
    spans = [
        Word(word, start + at / 10, start + (at + 1) / 10, (at + 1) / 10)
        for at, word in enumerate(words)
    ]
    nothing = np.zeros((0, 0), np.float32)
    return Segment(start, start + 1, tuple(spans), (), nothing, 0.0, StopReason.EOS)


def bare(text: str) -> str:
    text = "".join(each for each in text if each not in ",.?").lower()
    return " ".join({"mr": "mister", "mrs": "missus"}.get(each, each) for each in text.split())


def test_times_confidence_and_bare_words_are_those_of_a_plain_recogniser(model, clip):
    recognizer = Recognizer.load(model)
    found, plain = recognizer.transcribe(clip), recognizer.plain().transcribe(clip)
    assert not plain.is_written and plain.written == plain.text
    assert found.words == plain.words and found.characters == plain.characters
    assert found.text == plain.text and found.segments[0].text == plain.segments[0].text
    assert len(found.written_words) == len(found.words) > 0
    for word, written in zip(found.words, found.written_words, strict=True):
        assert written[1:] == word[1:] and bare(written.text) == bare(word.text)
    assert found.written != found.text


def test_text_and_subtitles_are_written_and_what_tools_read_is_bare(
    model, clip, capsys, monkeypatch
):
    # The text of an untrained model may be a loop, which subtitles leave out.
    monkeypatch.setattr("asr.inference.decoding.is_doubtful", lambda *_: False)
    found = Recognizer.load(model).transcribe(clip)
    run = ("transcribe", clip, "-m", model)
    assert output(capsys, *run) == found.written + "\n"
    for kind in ("srt", "vtt"):
        cues = output(capsys, *run, "-f", kind)
        assert all(word.text in cues for word in found.written_words)
    assert [line.split()[4] for line in output(capsys, *run, "-f", "ctm").splitlines()] == [
        word.text for word in found.words
    ]
    assert f'"{found.words[0].text}"' in output(capsys, *run, "-f", "textgrid")
    assert output(capsys, *run, "--plain") == found.text + "\n"
    assert not any(map(str.isupper, output(capsys, *run, "--plain", "-f", "srt")))


def test_json_holds_the_bare_text_and_the_written_one(model, clip, capsys):
    found = Recognizer.load(model).transcribe(clip)
    record = json.loads(output(capsys, "transcribe", clip, "-m", model, "-f", "jsonl"))
    assert (record["text"], record["written"]) == (found.text, found.written)
    (segment,) = record["segments"]
    assert (segment["text"], segment["written"]) == (found.text, found.written)
    assert [each["word"] for each in record["words"]] == [each.text for each in found.words]
    assert [each["written"] for each in record["words"]] == [
        each.text for each in found.written_words
    ]
    plain = output(capsys, "transcribe", clip, "-m", model, "-f", "jsonl", "--plain")
    assert '"written"' not in plain
    for each in (record, segment, *record["words"]):
        del each["written"]
    assert json.loads(plain) == record


def test_several_segments_are_written_as_one_text(model):
    recognizer = Recognizer.load(model)
    names = [["yes", "i", "met"], [], ["mister", "brown", "of", "the"], ["bbc"]]
    segments = [_segment(at / 2, each) for at, each in enumerate(names)]
    results = [*segments, Finished(None)]
    *spelt, finished = punctuated(results, recognizer.loaded.punctuator, Names())
    assert finished == Finished(None)
    found = Transcript(None, 4.0, 0.08, tuple(spelt))
    spellings = [word.text for word in found.written_words]
    assert spellings == recognizer.loaded.punctuator([w for n in names for w in n])
    parts = [each["written"] for each in found.record()["segments"]]
    assert [len(each.split()) for each in parts] == [3, 0, 4, 1]
    assert " ".join(filter(None, parts)) == found.written
    alone = [recognizer.loaded.punctuator(each) for each in names]
    assert [spelling for each in alone for spelling in each] != spellings


def test_hot_words_are_written_with_their_capitals(model, clip):
    recognizer = Recognizer.load(model).configured(beam=2)
    word = next(each for each in recognizer.transcribe(clip).text.split() if each.isalpha())
    given = word[:-1] + word[-1].upper()
    named = recognizer.configured(hotwords=[given])
    found = named.transcribe(clip)
    at = found.text.split().index(word)
    assert found.record()["words"][at]["written"].rstrip(",.?") == given
    assert given in found.written and given in next(named.transcribe_each([clip])).written
    assert given not in named.configured(hotwords=[]).transcribe(clip).written
    plain = named.plain().transcribe(clip)
    assert plain.written == plain.text == found.text


def test_the_words_before_and_after_a_long_pause_are_texts_of_their_own(model):
    punctuator = Recognizer.load(model).loaded.punctuator
    words = ["yes", "i", "met", "mister", "brown"]
    first = _segment(0.0, words)
    late = tuple(
        word._replace(start=word.start + 1.5, end=word.end + 1.5) if at >= 2 else word
        for at, word in enumerate(first.words)
    )
    within = replace(first, words=late)
    after = _segment(4.0, ["of", "the", "bbc"])
    *spelt, _ = punctuated([within, after, Finished(None)], punctuator, Names())
    texts = [words[:2], words[2:], ["of", "the", "bbc"]]
    wanted = [punctuator(each) for each in texts]
    assert list(spelt[0].spellings) == wanted[0] + wanted[1]
    assert list(spelt[1].spellings) == wanted[2]
    assert punctuator([*words, "of", "the", "bbc"]) != [*wanted[0], *wanted[1], *wanted[2]]
    (joined, _) = punctuated([first, Finished(None)], punctuator, Names())
    assert list(joined.spellings) == punctuator(words)


def test_a_number_in_digits_is_one_word_with_the_times_of_its_words():
    given = _segment(2.0, ["page", "twenty", "three", "or", "four"])
    spelt = replace(given, spellings=("Page", "twenty", "three,", "or", "four."))
    first, second, finished = with_digits([given, spelt, Finished(None)])

    assert finished == Finished(None)
    assert (first.written, first.text) == ("page 23 or four", given.text)
    assert second.spellings == ("Page", "23,", "", "or", "four.")
    assert second.written_words[1] == Word("23,", 2.1, 2.3, 0.2)
    assert second.written_words[2] == Word("or", 2.3, 2.4, 0.4)
    record = Transcript(None, 3.0, 0.08, (second,)).record()
    assert [each["written"] for each in record["words"]] == list(second.spellings)
    assert record["written"] == "Page 23, or four."


def test_numbers_are_written_in_digits_on_request(model, clip, capsys, monkeypatch):
    def as_digits(words, spellings):
        return ["7", *[""] * (len(words) - 1)]

    monkeypatch.setattr("asr.inference.spelling.write_digits", as_digits)
    run = ("transcribe", clip, "-m", model)
    assert output(capsys, *run, "--digits") == "7\n"
    assert output(capsys, *run) != "7\n"
    digits = Recognizer.load(model).with_digits()
    assert digits.transcribe(clip).written == "7"
    assert digits.plain().transcribe(clip).written != "7"
    with pytest.raises(SystemExit):
        cli.main(["transcribe", str(clip), "--digits", "--plain"])
    assert "--plain: not allowed with argument --digits" in capsys.readouterr().err


def test_what_measures_and_aligns_does_without_it(model, clip, capsys, tmp_path, monkeypatch):
    plain = Recognizer.load(model).plain().transcribe(clip)

    def refused(folder: Path) -> Punctuator:
        raise AssertionError("a measure must not need the written text")

    monkeypatch.setattr(Punctuator, "load", refused)
    manifest, hypotheses = tmp_path / "m.jsonl", tmp_path / "h.jsonl"
    entry = {"audio": str(clip), "text": "cold", "duration": 1.5}
    manifest.write_text(json.dumps(entry) + "\n", "utf-8")
    output(capsys, "evaluate", manifest, "-m", model, "-o", hypotheses)
    assert json.loads(hypotheses.read_text("utf-8"))["text"] == plain.text
    table = output(capsys, "align", clip, "-m", model)
    assert [line.split()[-1] for line in table.splitlines()[2:]] == plain.text.split()
    assert output(capsys, "transcribe", clip, "-m", model, "--plain") == plain.text + "\n"


def test_pseudo_labels_are_bare(model, clip, capsys, tmp_path):
    transcripts, corpus = tmp_path / "all.jsonl", tmp_path / "corpus"
    output(capsys, "transcribe", clip, "-m", model, "-o", transcripts, "--beam", 1)
    record = json.loads(transcripts.read_text("utf-8"))
    assert record["written"] != record["text"]
    record["segments"][0]["stop_reason"] = "eos"  # a random model may run to the limit
    record["segments"][0]["text"] = record["segments"][0]["text"][:20].strip()
    transcripts.write_text(json.dumps(record) + "\n", "utf-8")
    output(capsys, "prepare", "pseudo-labels", transcripts, corpus)
    (label,) = read_manifest(corpus / "manifest.jsonl")
    assert label.text == record["segments"][0]["text"]


def test_the_name_is_kept_in_copies_and_a_missing_model_is_one_line(model, clip, tmp_path):
    copy_folder(model, tmp_path / "copy", bits=16)
    copy_folder(model, tmp_path / "bare", bits=16, written="")
    assert Recognizer.load(tmp_path / "copy").loaded.punctuator is not None
    assert Recognizer.load(tmp_path / "bare").loaded.punctuator is None
    use_punctuator(tmp_path / "bare", "nobody")
    with pytest.raises(UserError, match=r"nobody: not a model folder"):
        Recognizer.load(tmp_path / "bare").transcribe(clip)


def test_a_recording_from_a_stream_is_written_too(model, clip):
    recognizer = Recognizer.load(model)
    streamed = recognizer.transcribe(io.BytesIO(clip.read_bytes()))
    assert streamed.written == recognizer.transcribe(clip).written
    nothing = replace(streamed, segments=())
    assert nothing.written == "" and nothing.written_words == ()
