"""A boundary model in a model folder refines the word times of transcripts and alignments."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_model import write_tiny_model

from asr.alignment.boundaries import WordBoundaries
from asr.errors import UserError
from asr.inference.loaded import LoadedModel
from asr.inference.recognizer import Recognizer
from asr.models.boundary import (
    CHARACTERS,
    CONTEXT,
    FRAMES,
    REACH,
    BoundaryModel,
    surroundings,
)
from asr.models.folder import BOUNDARIES, copy_folder
from asr.results import Span
from asr.runtime.boundary import BoundaryNetwork, BoundaryRefiner
from asr.runtime.numpy_runtime.features import standardised_log_mel
from asr.text.vocabulary import Vocabulary
from asr.weights import StoredWeights

VOCABULARY = Vocabulary.characters()
MELS = 4


class FixedOffsets:
    """A boundary model with given offsets; keeps its last input."""

    reach, context = REACH, CONTEXT

    def __init__(self, offsets: list[int]) -> None:
        self.fixed = np.array(offsets)

    def offsets(self, features, characters, is_end):
        self.features, self.characters, self.is_end = features, characters, is_end
        return self.fixed


def test_times_are_those_of_the_nearest_frames_plus_the_offsets():
    model = FixedOffsets([0, 3, -5])
    boundaries = WordBoundaries(
        times=np.array([0.201, 0.309, 0.5]),
        characters=np.arange(3 * CHARACTERS).reshape(3, CHARACTERS),
        is_end=np.array([False, True, False]),
    )
    features = np.repeat(np.arange(90, dtype=np.float32)[:, None], MELS, 1)
    found = BoundaryRefiner(model, VOCABULARY).times(features, boundaries)
    assert found.tolist() == [0.2, 0.34, 0.45]
    assert model.features.shape == (3, FRAMES, MELS)
    assert model.features[:, REACH, 0].tolist() == [20, 31, 50]
    assert model.characters.tolist() == boundaries.characters.tolist()
    assert model.is_end.tolist() == boundaries.is_end.tolist()


def test_offsets_are_those_of_the_trained_network():
    torch.manual_seed(1)
    model = BoundaryModel(MELS, len(VOCABULARY)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    features = torch.randn(50, MELS)
    frames = torch.arange(0, 50, 4)
    characters = torch.randint(0, len(VOCABULARY), (len(frames), CHARACTERS))
    is_end = torch.arange(len(frames)) % 2 == 1
    given = (surroundings(features, frames), characters, is_end)
    weights = StoredWeights({name: value.numpy() for name, value in model.state_dict().items()})
    network = BoundaryNetwork.of(weights, len(VOCABULARY))
    assert (network.reach, network.context) == (REACH, CONTEXT)
    assert network.fits(MELS) and not network.fits(MELS + 2)
    with torch.no_grad():
        wanted = model.offsets(*given)
    assert network.offsets(*(each.numpy() for each in given)).tolist() == wanted.tolist()
    assert len(set(wanted.tolist())) > 3
    refiner = BoundaryRefiner(network, VOCABULARY)
    boundaries = WordBoundaries(frames.numpy() / 100, characters.numpy(), is_end.numpy())
    times = refiner.times(features.numpy(), boundaries)
    assert times == pytest.approx((frames + wanted).numpy() / 100)


def test_words_move_to_the_times():
    word = Span("ab", 0.2, 0.6)
    characters = [Span("a", 0.2, 0.4), Span("b", 0.4, 0.6)]
    refiner = BoundaryRefiner(FixedOffsets([5, -7]), VOCABULARY)
    characters, (moved,) = refiner.refine(speech(0.9), characters, [word], 0.9)
    assert (moved.start, moved.end) == (0.25, 0.53)
    assert [each.start for each in characters] == pytest.approx([0.25, 0.39])


def test_without_words_or_a_whole_window_nothing_changes():
    refiner = BoundaryRefiner(FixedOffsets([]), VOCABULARY)
    assert refiner.refine(speech(9.0), [], [], 9.0) == ([], [])
    characters, words = [Span("i", 0.003, 0.007)], [Span("i", 0.003, 0.007)]
    assert refiner.refine(speech(0.0249), characters, words, 0.0249) == (characters, words)


def test_the_input_is_the_same_however_loud_and_whatever_the_microphone():
    found = standardised_log_mel(speech(1.0))
    assert found.shape == (98, 80)
    assert np.allclose(found.mean(0), 0, atol=1e-5) and np.allclose(found.std(0), 1, atol=1e-3)
    assert np.allclose(standardised_log_mel(0.1 * speech(1.0)), found, atol=1e-3)
    steady = standardised_log_mel(np.random.default_rng(0).standard_normal(16_000).astype("f"))
    assert steady.std() < 1  # not amplified to that of speech


def write_boundaries(folder: Path, symbols: int, offset: int | None = None) -> None:
    """Write a model with large random weights, or one with a constant offset, in frames."""
    state = BoundaryModel(80, symbols).state_dict()
    for name in ("sound.weight", "output.weight"):
        state[name] *= 100.0
    if offset is not None:
        state["output.weight"].zero_()
        state["output.bias"].view(2, FRAMES)[:, REACH + offset] = 99.0
    save_file({name: value.half() for name, value in state.items()}, folder / BOUNDARIES)


def test_a_model_folder_may_hold_a_boundary_model(tmp_path):
    folder = write_tiny_model(tmp_path / "tiny")
    assert LoadedModel.load(folder).boundaries is None
    copy_folder(folder, tmp_path / "copy", 16, boundaries="english")  # that of the package
    assert LoadedModel.load(tmp_path / "copy").boundaries is not None
    write_boundaries(folder, len(VOCABULARY))
    assert LoadedModel.load(folder).boundaries is not None
    write_boundaries(folder, len(VOCABULARY) + 1)
    with pytest.raises(UserError, match=f"{BOUNDARIES}.* do not fit"):
        LoadedModel.load(folder)
    earlier = {"sound.weight": torch.zeros(4, 9), "sound.bias": torch.zeros(4)}  # a perceptron
    earlier["letters.weight"] = torch.zeros(4, 4)
    save_file(earlier, folder / BOUNDARIES)
    with pytest.raises(UserError, match=f"{BOUNDARIES}.* of this version: sound.weight of shape"):
        LoadedModel.load(folder)
    (folder / BOUNDARIES).write_bytes(b"nothing")
    with pytest.raises(UserError, match="damaged"):
        LoadedModel.load(folder)


def speech(seconds: float) -> np.ndarray:
    """Bursts of noise, as in the training data of the tiny model."""
    count = round(16_000 * seconds)
    noise = np.random.default_rng(0).standard_normal(count)
    return (0.3 * noise * np.sin(np.arange(count) / 900)).astype(np.float32)


def test_transcripts_have_the_refined_times(tmp_path):
    folder = write_tiny_model(tmp_path)
    found = []
    for offset in (0, 2):
        write_boundaries(folder, len(VOCABULARY), offset)
        found.append(Recognizer.load(folder).align(speech(3.0), "ab cd ef", rate=16_000))
    before, after = found
    starts = [word.start for word in before.words]
    assert np.allclose([word.start for word in after.words], np.add(starts, 0.02))
    assert after.characters[0].start == after.words[0].start
    assert after.text == before.text == "ab cd ef"


def test_slowed_speech_is_refined_at_its_own_pace(tmp_path, monkeypatch):
    folder = write_tiny_model(tmp_path)
    write_boundaries(folder, len(VOCABULARY))
    inputs = []

    def refine(self, samples, characters, words, duration):
        inputs.append(samples)
        return list(characters), list(words)

    monkeypatch.setattr(BoundaryRefiner, "refine", refine)
    recognizer = Recognizer.load(folder)
    scores = [
        recognizer.configured(fastest=each)
        .align(speech(3.0), "ab cd ef", rate=16_000)
        .segments[0]
        .log_probability
        for each in (0.0, 0.1)
    ]
    assert scores[0] != scores[1]  # one was slowed down
    assert np.array_equal(inputs[0], speech(3.0)) and np.array_equal(*inputs)


def test_times_do_not_depend_on_the_batch(tmp_path):
    folder = write_tiny_model(tmp_path)
    write_boundaries(folder, len(VOCABULARY))
    sounds = [speech(1.0), speech(2.3)]
    recognizer = Recognizer.load(folder).configured(beam=1)
    together = recognizer.transcribe(sounds, rate=16_000)
    for sound, found in zip(sounds, together, strict=True):
        alone = recognizer.transcribe(sound, rate=16_000)
        assert found.words
        assert [word.text for word in alone.words] == [word.text for word in found.words]
        assert np.allclose([w[1:3] for w in alone.words], [w[1:3] for w in found.words])
