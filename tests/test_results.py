"""Transcripts join the matrices and stop reasons of their segments."""

import numpy as np

from asr.results import Character, Segment, StopReason, Transcript, Word


def segment(start: float, text: str, weights: np.ndarray) -> Segment:
    characters = tuple(Character(each, start, start + 0.1) for each in text)
    words = (Word(text, start, start + 0.5),)
    return Segment(start, start + 1, words, characters, weights, -1.0, StopReason.EOS)


def test_rows_of_weights_are_those_of_the_characters_where_a_segment_has_none() -> None:
    known, none = np.ones((2, 5), np.float32), np.zeros((0, 0), np.float32)
    segments = (segment(0, "ab", none), segment(1, "cd", known), segment(2, "ef", none))
    found = Transcript(None, 3.0, 0.2, segments)
    texts = [each.text for each in found.characters]
    assert found.weights.shape == (len(texts), 15)
    assert [text for text, row in zip(texts, found.weights, strict=True) if row.any()] == ["c", "d"]
    assert found.weights[3:5, 5:10].all() and found.weights.sum() == 10
    (alone,) = (Transcript(None, 1.0, 0.2, segments[:1]),)
    assert alone.weights.shape == (2, 5)


def test_a_transcript_without_segments_is_silence() -> None:
    found = Transcript(None, 1.0, 0.2, ())
    assert found.stop_reason == StopReason.SILENCE
    assert found.weights.shape == (0, 5) and found.allowed is None
    assert found.record()["stop_reason"] == "silence"
