"""Refined word boundaries: they follow the model, stay in order, and move the characters along."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from tiny_model import write_tiny_model

from asr.alignment.boundaries import Boundaries, questions
from asr.alignment.times import SHORTEST_PAUSE
from asr.errors import UserError
from asr.inference.decoding import LoadedModel
from asr.inference.recognizer import Recognizer
from asr.models.boundary import FRAMES, REACH, BoundaryModel, surroundings
from asr.models.folder import BOUNDARIES
from asr.results import Span
from asr.text.vocabulary import BLANK, Vocabulary

LETTERS = Vocabulary.characters()
MELS = 4
SECONDS = 9.0
lengths = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 60)), min_size=1, max_size=8)


class Told:
    """A boundary model with given offsets."""

    def __init__(self, offsets: list[int]) -> None:
        self.told = torch.tensor(offsets)

    def offsets(self, sound: torch.Tensor, letters: torch.Tensor, is_end: torch.Tensor):
        assert sound.shape == (len(self.told), FRAMES, MELS)
        return self.told


def spoken(lengths: list[tuple[int, int]]) -> tuple[list[Span], list[Span]]:
    """Characters and words of two letters: a pause before each and its length, in frames."""
    characters, words, at = [], [], 0
    for pause, length in lengths:
        start, middle, end = at + pause, at + pause + length / 2, at + pause + length
        if words:
            characters.append(Span(" ", at / 100, start / 100))
        characters += [Span("a", start / 100, middle / 100), Span("b", middle / 100, end / 100)]
        words.append(Span("ab", start / 100, end / 100, 0.7))
        at = end
    return characters, words


def refine(
    offsets: list[int], characters: list[Span], words: list[Span]
) -> tuple[list[Span], list[Span]]:
    boundaries = Boundaries(Told(offsets), LETTERS)
    return boundaries.refine(torch.zeros(900, MELS), characters, words, SECONDS)


def test_boundaries_move_by_what_the_model_says():
    characters, words = spoken([(20, 40), (30, 50)])
    characters, words = refine([5, -7, 0, 12], characters, words)
    times = [(word.start, word.end) for word in words]
    assert np.allclose(times, [(0.25, 0.53), (0.90, 1.52)])
    assert [word.confidence for word in words] == [0.7, 0.7]
    assert np.allclose(
        [(each.start, each.end) for each in characters[:3]],
        [(0.25, 0.39), (0.39, 0.53), (0.53, 0.90)],
    )


@given(lengths, st.data())
def test_words_stay_in_order_around_their_middles_and_letters_in_them(lengths, data):
    before, words = spoken(lengths)
    offsets = data.draw(
        st.lists(st.integers(-REACH, REACH), min_size=2 * len(words), max_size=2 * len(words))
    )
    characters, moved = refine(offsets, before, words)
    times = np.array([(word.start, word.end) for word in moved])
    assert times.min() >= 0 and times.max() <= SECONDS
    assert (np.diff(times.ravel()) >= -1e-9).all()
    middles = np.array([(word.start + word.end) / 2 for word in words])
    assert (times[:, 0] <= middles + 1e-9).all() and (middles <= times[:, 1] + 1e-9).all()
    pauses = times[1:, 0] - times[:-1, 1]
    assert all(abs(pause) < 1e-9 or pause >= SHORTEST_PAUSE for pause in pauses)
    assert [each.text for each in characters] == [each.text for each in before]
    edges = np.array([(each.start, each.end) for each in characters])
    assert np.allclose(edges[1:, 0], edges[:-1, 1])  # here characters are contiguous
    assert np.allclose(edges[::3, 0], times[:, 0]) and np.allclose(edges[1::3, 1], times[:, 1])


def test_spaces_around_all_words_stay_there():
    characters, words = spoken([(20, 40)])
    characters = [Span(" ", 0.1, 0.2), *characters, Span(" ", 0.6, 0.7)]
    characters, _ = refine([-15, 15], characters, words)
    assert np.allclose([characters[0].start, characters[0].end], [0.05, 0.05])
    assert np.allclose([characters[-1].start, characters[-1].end], [0.75, 0.75])


def test_without_words_or_sound_nothing_changes():
    boundaries = Boundaries(Told([]), LETTERS)
    assert boundaries.refine(torch.zeros(9, MELS), [], [], SECONDS) == ([], [])
    characters, words = spoken([(3, 4)])
    assert boundaries.refine(torch.zeros(0, MELS), characters, words, 0.1) == (characters, words)


def test_a_boundary_is_asked_for_with_the_letters_on_both_sides():
    words = [Span("old", 0.101, 0.3), Span("i", 0.3, 0.4), Span("ax", 0.5, 0.6)]
    asked = questions(LETTERS, words)
    assert asked.frames.tolist() == [10, 30, 30, 40, 50, 60]
    assert asked.is_end.tolist() == [False, True] * 3
    nothing = "\0"
    spelt = ["\0\0ol", "ldi\0", "ldi\0", "\0iax", "\0iax", "ax\0\0"]
    wanted = [[BLANK if c == nothing else LETTERS.encode(c)[0] for c in each] for each in spelt]
    assert asked.letters.tolist() == wanted


def test_the_median_of_the_offsets_is_taken_and_starts_are_not_ends():
    model = BoundaryModel(MELS, len(LETTERS)).eval()
    torch.nn.init.zeros_(model.output.weight)
    with torch.no_grad():
        model.output.bias.fill_(-20.0)
        model.output.bias.view(2, FRAMES)[0, REACH - 3] = 20.0  # starts: 3 frames earlier
        ends = model.output.bias.view(2, FRAMES)[1]
        ends[[REACH, REACH + 4, REACH + 9]] = torch.tensor([19.9, 20.0, 20.1])
    sound, letters = torch.randn(2, FRAMES, MELS), torch.randint(0, len(LETTERS), (2, 4))
    assert model.offsets(sound, letters, torch.tensor([False, True])).tolist() == [-3, 4]


def test_surroundings_repeat_the_edges():
    features = torch.arange(40.0)[:, None]
    found = surroundings(features, torch.tensor([20, 0, 45]))[..., 0]
    assert found[0].tolist() == [*range(20 - REACH, 20 + REACH + 1)]
    assert found[1].tolist() == [0.0] * REACH + [*range(REACH + 1)]
    assert found[2].tolist() == [*range(45 - REACH, 40)] + [39.0] * (REACH + 6)


def write_boundaries(folder: Path, symbols: int, offset: int | None = None) -> None:
    """Write a model of random large weights, or one that moves by `offset` frames."""
    state = BoundaryModel(80, symbols).state_dict()
    for name in ("sound.weight", "output.weight"):
        state[name] *= 100.0
    if offset is not None:
        state["output.weight"].zero_()
        state["output.bias"].view(2, FRAMES)[:, REACH + offset] = 99.0
    save_file({name: value.half() for name, value in state.items()}, folder / BOUNDARIES)


def test_a_model_folder_may_hold_boundaries(tmp_path):
    folder = write_tiny_model(tmp_path)
    assert LoadedModel.load(folder).boundaries is None
    write_boundaries(folder, len(LETTERS))
    assert LoadedModel.load(folder).boundaries is not None
    write_boundaries(folder, len(LETTERS) + 1)
    with pytest.raises(UserError, match=f"{BOUNDARIES}.* do not fit"):
        LoadedModel.load(folder)
    (folder / BOUNDARIES).write_bytes(b"nothing")
    with pytest.raises(UserError, match="damaged"):
        LoadedModel.load(folder)


def speech(seconds: float) -> np.ndarray:
    """Return bursts of noise, on which the tiny model writes text."""
    count = round(16_000 * seconds)
    noise = np.random.default_rng(0).standard_normal(count)
    return (0.3 * noise * np.sin(np.arange(count) / 900)).astype(np.float32)


def test_transcripts_have_the_better_times(tmp_path):
    folder = write_tiny_model(tmp_path)
    found = []
    for offset in (0, 2):
        write_boundaries(folder, len(LETTERS), offset)
        found.append(Recognizer.load(folder).align(speech(3.0), "ab cd ef", rate=16_000))
    before, after = found
    starts = [word.start for word in before.words]
    assert np.allclose([word.start for word in after.words], np.add(starts, 0.02))
    assert after.characters[0].start == after.words[0].start
    assert after.text == before.text == "ab cd ef"


def test_slowed_speech_is_looked_at_as_it_was(tmp_path, monkeypatch):
    folder = write_tiny_model(tmp_path)
    write_boundaries(folder, len(LETTERS))
    seen = []

    def refine(self, features, characters, words, duration):
        seen.append(features)
        return list(characters), list(words)

    monkeypatch.setattr(Boundaries, "refine", refine)
    recognizer = Recognizer.load(folder)
    scores = [
        recognizer.configured(fastest=each)
        .align(speech(3.0), "ab cd ef", rate=16_000)
        .segments[0]
        .log_probability
        for each in (0.0, 0.1)
    ]
    assert scores[0] != scores[1]  # one of them was slowed down
    assert torch.equal(seen[0], seen[1])


def test_times_do_not_depend_on_the_batch(tmp_path):
    folder = write_tiny_model(tmp_path)
    write_boundaries(folder, len(LETTERS))
    sounds = [speech(1.0), speech(2.3)]
    recognizer = Recognizer.load(folder).configured(beam=1)
    together = recognizer.transcribe(sounds, rate=16_000)
    for sound, found in zip(sounds, together, strict=True):
        alone = recognizer.transcribe(sound, rate=16_000)
        assert found.words
        assert [word.text for word in alone.words] == [word.text for word in found.words]
        assert np.allclose([w[1:3] for w in alone.words], [w[1:3] for w in found.words])
