"""The score of English speech: its evidence, its use, and what is left out of subtitles."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_model import write_tiny_model

from asr.audio.read import read
from asr.inference import decoding, plausibility
from asr.inference.confidence import Calibration
from asr.inference.cutting import cut_piece
from asr.inference.encoding import seconds_of_speech
from asr.inference.plausibility import (
    Plausibility,
    TextEvidence,
    is_doubtful,
    is_guess,
    is_slow_by_ctc,
    is_without_sound,
)
from asr.inference.recognizer import Recognizer
from asr.render.transcripts import Style, parts
from asr.results import Segment, StopReason, Transcript, Word
from asr.search.ctc_path import ctc_greedy
from asr.search.hypothesis import Hypothesis

FLAC = next((Path(__file__).parents[2] / "data" / "speech").glob("*.flac"))


def posteriors(symbols, share=0.9, size=5):
    """Return CTC log-probabilities whose best path is `symbols`."""
    found = np.full((len(symbols), size), (1 - share) / (size - 1), np.float32)
    found[np.arange(len(symbols)), symbols] = share
    return np.log(found)


def hypothesis(tokens, log_probability=-1.0, score=-2.0):
    return Hypothesis(tokens, log_probability, np.empty(0), StopReason.EOS, [], score)


def test_evidence_is_that_of_decoder_search_and_ctc():
    found = TextEvidence.of(hypothesis([3, 4, 3]), posteriors([3, 0, 4, 4, 0, 3]))
    wanted = (-0.25, -0.5, 1.0, np.log(0.9), np.log(4))
    assert found == pytest.approx(wanted, rel=1e-4)
    assert TextEvidence.of(hypothesis([3, 4, 3, 4]), posteriors([0, 3, 0])).agreement == 0.25
    assert TextEvidence.of(hypothesis([3]), posteriors([0, 0])).agreement == 0


def test_the_score_is_a_logistic_function_of_the_evidence():
    score = Plausibility(0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert score(TextEvidence(0, 0, 0, 0, 0)) == pytest.approx(1 / (1 + np.exp(-0.5)))
    total = 0.5 - 1 - 4 + 1.5 - 0.4 + 5
    assert score(TextEvidence(-1, -2, 0.5, -0.1, 1)) == pytest.approx(1 / (1 + np.exp(-total)))
    assert score(TextEvidence(-1e9, 0, 0, 0, 0)) < 1e-9


def test_loops_what_is_not_english_and_what_has_no_sound_are_doubtful():
    spoken, ctc = hypothesis([3] * 30), posteriors([3, 0] * 30)
    for reason in (StopReason.REPEAT, StopReason.LENGTH):
        assert is_doubtful(spoken._replace(stop_reason=reason), ctc, 0.9)
    assert is_doubtful(spoken, ctc, 0.4)
    assert not is_doubtful(spoken, ctc, 0.6) and not is_doubtful(spoken, ctc, None)
    assert is_doubtful(hypothesis([3] * 99), ctc, None)  # even where no score is known


def test_a_short_piece_with_fewer_characters_by_ctc_than_slow_speech_is_noise():
    eight = [3, 0] * 8  # of probability 0.9 each: 7.2 characters, of 4 per second at least
    assert is_slow_by_ctc(posteriors(eight), 1.9) and not is_slow_by_ctc(posteriors(eight), 1.7)
    assert is_slow_by_ctc(posteriors(eight, share=0.3), 1.7)
    assert not is_slow_by_ctc(posteriors([0, 0]), 3.1)  # such long speech is no noise
    assert is_slow_by_ctc(posteriors([0, 0]), 2.9) and not is_slow_by_ctc(None, 2.9)


def test_a_text_of_noise_is_left_out_of_cut_pieces_by_greedy_search_too(tmp_path, monkeypatch):
    recognizer = Recognizer.load(write_tiny_model(tmp_path / "tiny")).configured(beam=1)
    sound = read(FLAC).samples[:24_000]
    asked = []

    def noise(ctc, seconds):
        asked.append((ctc.shape[1], seconds))
        return True

    monkeypatch.setattr(decoding, "is_slow_by_ctc", noise)
    assert recognizer.transcribe(sound, rate=16_000).text and not asked  # a recording of its own
    piece = cut_piece(sound, 0, is_silent=False)
    (found,) = decoding.decode(recognizer.loaded, [piece], recognizer.decoding)
    assert found.text == "" and found.stop_reason == "silence"
    ((symbols, seconds),) = asked
    assert symbols == len(recognizer.loaded.vocabulary) and 0 < seconds <= 1.5


def test_an_unlikely_text_is_a_guess_if_the_sound_is_short_or_the_text_slow():
    words = [Word("if", 0.0, 0.2, 0.13), Word("you", 0.3, 0.6, 0.29)]  # 6 characters
    likely = [words[0], words[1]._replace(confidence=0.38)]  # 0.255 on average
    no_likely = [words[1], words[1]]
    unlikely = [words[0], words[1]._replace(confidence=0.36)]  # 0.245
    cut, doubtful = {"is_cut": True, "is_doubtful": False}, {"is_cut": False, "is_doubtful": True}
    assert is_guess(words, 0.9, **cut) and not is_guess(words, 1.1, **cut)
    assert is_guess(words, 0.5, **doubtful) and is_guess(words * 4, 2.9, **doubtful)
    assert is_guess(words, 3.1, **doubtful) and not is_guess(words * 4, 3.1, **doubtful)
    assert not any(is_guess(words, each, is_cut=False, is_doubtful=False) for each in (0.1, 9.0))
    assert not is_guess(likely, 0.9, **cut) and not is_guess(likely, 9.0, **doubtful)
    for each in (no_likely, unlikely):
        assert is_guess(each, 0.9, **cut) and is_guess(each, 9.0, **doubtful)


@pytest.mark.parametrize("bias", [-20.0, 20.0])
def test_guesses_with_calibrated_confidence_are_left_out(tmp_path, monkeypatch, bias):
    monkeypatch.setattr(decoding, "is_slow_by_ctc", lambda ctc, seconds: False)
    monkeypatch.setattr(plausibility, "_LIKELY", 0.6)  # the word's own confidence is 0.45
    plain = Recognizer.load(write_tiny_model(tmp_path / "tiny"))
    calibrated = replace(plain, loaded=replace(plain.loaded, calibration=Calibration(bias, 0, 0)))
    short = cut_piece(read(FLAC).samples[8_000:22_000], 0, is_silent=False)
    assert 0 < seconds_of_speech(short) < 1
    for recognizer, is_left_out in ((plain, False), (calibrated, bias < 0)):
        for is_cut, doubtful in itertools.product((False, True), repeat=2):
            monkeypatch.setattr(decoding, "is_doubtful", lambda *given, it=doubtful: it)
            piece = short._replace(is_cut=is_cut)
            (found,) = decoding.decode(recognizer.loaded, [piece], recognizer.decoding)
            assert (found.text == "") == (is_left_out and (is_cut or doubtful))


@pytest.mark.parametrize("bias", [-20.0, 20.0])
def test_a_model_with_the_score_marks_its_segments(tmp_path, bias):
    plain = Recognizer.load(write_tiny_model(tmp_path / "tiny"))
    score = Plausibility(bias, 0, 0, 0, 0, 0)
    recognizer = replace(plain, loaded=replace(plain.loaded, plausibility=score))
    (segment,) = recognizer.transcribe(FLAC).segments
    assert segment.english == pytest.approx(float(bias > 0), abs=1e-6)
    assert segment.low_confidence >= (bias < 0 or segment.stop_reason != "eos")
    assert segment.text == plain.transcribe(FLAC).text
    (other,) = recognizer.transcribe(FLAC, beam=1).segments  # fitted to another search
    assert other.english is None
    silent = recognizer.transcribe(np.zeros(16_000, np.float32), rate=16_000)
    assert silent.english is None and not silent.segments[0].low_confidence


def spoken(start, text, english, low=False):
    words = tuple(Word(each, start + at, start + at + 0.5) for at, each in enumerate(text.split()))
    nothing = np.zeros((0, 0), np.float32)
    characters = words[:1] * len(text)
    return Segment(
        start, start + 9, words, characters, nothing, 0.0, StopReason.EOS,
        english=english, low_confidence=low,
    )  # fmt: skip


def test_subtitles_leave_out_what_is_doubtful_and_text_does_not():
    segments = [spoken(0, "one two", 0.9), spoken(10, "la la", 0.1, low=True)]
    assert "la" not in "".join(parts(segments, "srt", "a"))
    assert "la" not in "".join(parts(segments, "vtt", "a"))
    assert "".join(parts(segments, "text", "a")) == "one two la la\n"
    assert "".join(parts(segments, "ctm", "a")).count("\n") == 4


def test_subtitles_keep_what_is_doubtful_on_request():
    segments = [spoken(0, "one two", 0.9), spoken(10, "la la", 0.1, low=True)]
    assert "la la" in "".join(parts(segments, "srt", "a", Style(keep_low_confidence=True)))


@pytest.mark.parametrize("kind", ["text", "srt", "vtt"])
def test_uncertain_words_are_marked_and_times_stay(kind):
    bare = spoken(0, "hello mister fuchs", 0.9)
    words = [
        word._replace(confidence=share)
        for word, share in zip(bare.words, (0.4, 0.3, 0.5), strict=True)
    ]
    segment = replace(bare, words=tuple(words), spellings=("Hello,", "Mr.", "Fuchs."))
    plain = "".join(parts([segment], kind, "a"))
    marked = "".join(parts([segment], kind, "a", Style(mark_below=0.5)))
    assert "[Hello?], [Mr.?] Fuchs." in marked
    assert marked.replace("[Hello?]", "Hello").replace("[Mr.?]", "Mr.") == plain


def test_the_score_of_a_recording_is_weighted_by_characters():
    one, two = spoken(0, "aaaaaaaaa", 0.9), spoken(10, "b", 0.1)
    record = Transcript("a", 20.0, 0.08, (one, two)).record()
    assert record["english"] == pytest.approx(0.82)
    assert [each["english"] for each in record["segments"]] == [0.9, 0.1]
    unknown = replace(one, english=None)
    assert Transcript("a", 20.0, 0.08, (unknown,)).english is None


def test_a_text_without_sound_under_it_is_a_loop_or_of_another_length():
    ctc = posteriors([3, 0] * 30)  # 30 symbols
    assert not is_without_sound(hypothesis([3] * 30), ctc)
    assert not is_without_sound(hypothesis([3] * 70), ctc)
    assert is_without_sound(hypothesis([3] * 71), ctc)
    assert not is_without_sound(hypothesis([3] * 10), ctc)
    assert is_without_sound(hypothesis([3] * 9), ctc)
    loop = hypothesis([3] * 30)._replace(stop_reason=StopReason.LENGTH)
    assert is_without_sound(loop, ctc) and is_without_sound(loop, None)
    assert not is_without_sound(hypothesis([3] * 99), None)


@pytest.mark.parametrize("second", [StopReason.EOS, StopReason.REPEAT])
def test_a_loop_is_decoded_again_and_marked_if_it_stays(tmp_path, monkeypatch, second):
    recognizer = Recognizer.load(write_tiny_model(tmp_path / "tiny"))
    search, weights, tokens = decoding._search, [], []

    def looping(loaded, encoded, options):
        weights.append((len(encoded.lengths), options.lm_weight, options.ctc_weight))
        found = search(loaded, encoded, options)
        reasons = [StopReason.EOS, StopReason.REPEAT] if len(weights) == 1 else [second]
        lengths = encoded.ctc_lengths.tolist()
        paths = ctc_greedy(encoded.ctc, encoded.ctc_lengths)
        assert len(found) == len(reasons) == len(lengths)
        paths = paths if len(weights) == 1 else [path[1:] for path in paths]  # another text
        tokens.append(paths)
        return [
            each._replace(tokens=path or [1], weights=np.resize(each.weights, (len(path or [1]) + 1,
            each.weights.shape[1])), token_log_probabilities=[-0.5] * (len(path or [1]) + 1),
            stop_reason=reason)
            for each, path, reason in zip(found, paths, reasons, strict=True)
        ]  # fmt: skip

    monkeypatch.setattr(decoding, "_search", looping)
    samples = read(FLAC).samples
    two, one = recognizer.transcribe([samples, samples[5_000:]], rate=16_000)  # by length
    assert [each[0] for each in weights] == [2, 1]
    assert weights[1][1:] == (0.0, 0.5)
    assert (one.stop_reason, two.stop_reason) == (StopReason.EOS, second)
    kept = tokens[1][0] if second == StopReason.EOS else tokens[0][1]
    assert tokens[1][0] != tokens[0][1]
    assert two.text.split() == recognizer.loaded.vocabulary.decode(kept).split()
    assert not one.segments[0].low_confidence
    assert two.segments[0].low_confidence == (second != StopReason.EOS)
