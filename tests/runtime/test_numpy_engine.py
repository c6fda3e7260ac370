"""The NumPy engine computes what torch computes, for every setting that it supports."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_encoder import fake_encoder
from small_models import (
    ATTENTION,
    PLAIN,
    SUPPORTED,
    SYMBOLS,
    UNSUPPORTED,
    attending,
    audio,
    close,
    random_model,
    row_of,
)
from tiny_model import write_tiny_model

from asr.checksums import renew_checksum
from asr.errors import UserError
from asr.inference.loaded import LoadedModel
from asr.inference.recognizer import Recognizer
from asr.models.encoders import public
from asr.models.settings import SpeechSettings
from asr.models.speech import build_speech_model
from asr.runtime.numpy_runtime.decoder import unsupported
from asr.runtime.numpy_runtime.engine import NumpyEngine
from asr.runtime.numpy_runtime.shapes import weight_shapes
from asr.runtime.torch_engine import TorchEngine
from asr.weights import StoredWeights


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    monkeypatch.setattr(public, "load_public", fake_encoder)


def engines(settings: SpeechSettings) -> tuple[TorchEngine, NumpyEngine]:
    """Make a random model, and both engines around its weights."""
    model = random_model(settings)
    weights = StoredWeights({name: value.numpy() for name, value in model.state_dict().items()})
    return TorchEngine(model), NumpyEngine(settings, weights, SYMBOLS)


@pytest.mark.parametrize("settings", SUPPORTED.values(), ids=SUPPORTED)
def test_both_engines_encode_and_step_alike(settings):
    torch_engine, numpy_engine = engines(settings)
    assert numpy_engine.seconds_per_annotation == torch_engine.seconds_per_annotation
    assert numpy_engine.has_ctc == torch_engine.has_ctc
    given = audio(1.31, 0.7, 1.0)
    wanted, found = torch_engine.encode(given), numpy_engine.encode(given)
    assert found.lengths.tolist() == wanted.lengths.tolist()
    assert found.ctc_lengths.tolist() == wanted.ctc_lengths.tolist()
    for row, (length, frames) in enumerate(zip(wanted.lengths, wanted.ctc_lengths, strict=True)):
        close(found.features[row], wanted.features[row], atol=2e-3)  # logarithms near 1e-10
        close(found.memory.values[row, :length], wanted.memory.values[row, :length])
        if wanted.ctc is not None:
            close(found.ctc[row, :frames], wanted.ctc[row, :frames])
    assert (found.ctc is None) == (wanted.ctc is None)
    assert (found.memory.mask == wanted.memory.mask.numpy()).all()
    for name in ("decoder", "decoder_without_audio"):
        one, other = (
            getattr(each, name)(encoded.memory)
            for each, encoded in ((torch_engine, wanted), (numpy_engine, found))
        )
        assert one.utterances == other.utterances == 3
        states = [one.start(), other.start()]
        parents = np.array([[0, 0], [0, 0], [0, 0]])
        states = [each.select(s, parents) for each, s in zip((one, other), states, strict=True)]
        random = np.random.default_rng(1)
        for _ in range(6):
            tokens = random.integers(1, SYMBOLS, (len(parents), 2))
            first, second = (
                each.step(tokens, s) for each, s in zip((one, other), states, strict=True)
            )
            close(second.log_probs, first.log_probs, atol=1e-4)
            close(second.weights, first.weights)
            parents = random.integers(0, 2, (len(parents), 2))
            states = [each.select(s.state, parents) for each, s in ((one, first), (other, second))]
        rows = np.array([2, 0])
        (one, left), (other, right) = (
            each.take(s, rows) for each, s in zip((one, other), states, strict=True)
        )
        first, second = one.step(tokens[:2], left), other.step(tokens[:2], right)
        close(second.log_probs, first.log_probs, atol=1e-4)


@pytest.mark.parametrize("hypotheses", [1, 2])
@pytest.mark.parametrize("name", ["plain", "window", "window-soft", "window-stride"])
def test_both_engines_treat_forbidden_annotations_alike(name, hypotheses):
    torch_engine, numpy_engine = engines(SUPPORTED[name])
    given = audio(1.6, 1.6, 1.6)
    wanted, found = torch_engine.encode(given).memory, numpy_engine.encode(given).memory
    mask = np.ones(found.mask.shape, bool)
    mask[0] = False  # nothing is allowed
    mask[1, :15] = False  # nothing near the first window
    decoders = (
        torch_engine.decoder(wanted._replace(mask=torch.from_numpy(mask))),
        numpy_engine.decoder(found._replace(mask=mask)),
    )
    parents = np.zeros((3, hypotheses), np.int64)
    states = [each.select(each.start(), parents) for each in decoders]
    for token in (1, 4, 2):
        tokens = np.full((3, hypotheses), token)
        one, other = (each.step(tokens, s) for each, s in zip(decoders, states, strict=True))
        close(other.weights, one.weights)
        close(other.log_probs, one.log_probs, atol=1e-4)
        assert not other.weights[0].any()
        assert other.weights[1].sum(-1) == pytest.approx(1)
        states = [one.state, other.state]


@pytest.mark.parametrize("settings", SUPPORTED.values(), ids=SUPPORTED)
def test_a_recording_does_not_depend_on_its_batch(settings):
    _, engine = engines(settings)
    given = audio(1.31, 0.7)
    together = engine.encode(given)
    for row, length in enumerate(together.lengths):
        alone = engine.encode(row_of(given, row))
        assert alone.lengths.tolist() == [length]
        close(together.memory.values[row, :length], alone.memory.values[0], atol=1e-5)
        close(together.memory.mask[row, :length], alone.memory.mask[0])
        tokens = np.array([[3]] * 2)
        one = engine.decoder(together.memory)
        other = engine.decoder(alone.memory)
        first = one.step(tokens, one.start())
        second = other.step(tokens[:1], other.start())
        close(first.log_probs[row], second.log_probs[0], atol=1e-5)


def test_recordings_of_a_memory_can_be_replaced():
    long, short = audio(1.3, 0.7, 1.0), audio(0.5, 0.6)
    for engine in engines(PLAIN):
        first, second = engine.encode(long), engine.encode(short)
        joined = engine.put(first.memory, np.array([2, 0]), second.memory)
        decoder = engine.decoder(joined)
        found = decoder.step(np.full((3, 1), 4), decoder.start())
        for row, (memory, own) in enumerate(
            ((second.memory, 1), (first.memory, 1), (second.memory, 0))
        ):
            decoder = engine.decoder(memory)
            count = decoder.utterances
            wanted = decoder.step(np.full((count, 1), 4), decoder.start())
            close(found.log_probs[row], wanted.log_probs[own], atol=1e-5)
            length = wanted.weights.shape[-1]
            close(found.weights[row, :, :length], wanted.weights[own, :, : found.weights.shape[-1]])


@pytest.mark.parametrize("name", ["plain", "window", "silence-mask", "frozen"])
def test_both_engines_read_a_known_text_alike(name):
    torch_engine, numpy_engine = engines(SUPPORTED[name])
    given = audio(1.3)
    found = [
        each.force(each.encode(given).memory, [4, 2, 7, 2]) for each in (torch_engine, numpy_engine)
    ]
    (weights, scores), (own_weights, own_scores) = found
    assert own_weights.shape == weights.shape and own_scores.shape == (5,)
    close(own_weights, weights)
    close(own_scores, scores, atol=1e-4)


def test_a_window_can_be_set_later_and_leaves_the_engine_as_it_was():
    torch_engine, engine = engines(PLAIN)
    given, narrow = audio(1.3), SUPPORTED["window"].attention
    memory = engine.encode(given).memory
    wanted, _ = torch_engine.windowed(narrow).force(torch_engine.encode(given).memory, [4, 2, 7])
    before, _ = engine.force(memory, [4, 2, 7])
    found, _ = engine.windowed(narrow).force(memory, [4, 2, 7])
    close(found, wanted)
    assert not np.allclose(found, before)
    close(engine.force(memory, [4, 2, 7])[0], before, atol=0)
    for each in (torch_engine, engine):
        with pytest.raises(ValueError, match=r"both ways, got back=2, ahead=0"):
            each.windowed(replace(ATTENTION, window_back=2))


# Which models


@pytest.mark.parametrize("settings", [*SUPPORTED.values(), *UNSUPPORTED.values()])
def test_a_model_is_supported_or_the_reason_is_given(settings):
    reason = unsupported(settings.attention, settings.decoder)
    assert (reason is None) == (settings in SUPPORTED.values())
    if reason is not None:
        with pytest.raises(ValueError, match="needs torch"):
            NumpyEngine(settings, StoredWeights({}), SYMBOLS)


@pytest.mark.parametrize("settings", SUPPORTED.values(), ids=SUPPORTED)
def test_the_shapes_of_the_weights_are_those_of_the_trained_model(settings):
    model = build_speech_model(settings, SYMBOLS)
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert weight_shapes(settings, SYMBOLS, model.features.size) == wanted


def test_weights_that_do_not_fit_are_refused():
    torch_engine, _ = engines(PLAIN)
    weights = {name: value.numpy() for name, value in torch_engine.model.state_dict().items()}
    for wrong in (
        {**weights, "strange": np.zeros(1)},
        {name: value for name, value in weights.items() if name != "ctc.output.bias"},
        {**weights, "encoder.enter.weight": np.zeros((2, 2), np.float32)},
    ):
        with pytest.raises(ValueError, match="and 0 more do not fit"):
            NumpyEngine(PLAIN, StoredWeights(wrong), SYMBOLS)
    with pytest.raises(ValueError, match="location_width must be odd"):
        NumpyEngine(attending(location_width=4), StoredWeights(weights), SYMBOLS)


def test_the_device_auto_is_a_gpu_if_torch_and_a_gpu_are_there(tmp_path, monkeypatch):
    folder = write_tiny_model(tmp_path / "tiny")

    def engine(**options):
        return LoadedModel.load(folder, device="auto", **options).engine

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert isinstance(engine(runtime="numpy"), NumpyEngine)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, device: self)
    assert isinstance(engine(), TorchEngine)
    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert isinstance(engine(), NumpyEngine)
    assert isinstance(engine(runtime="torch"), TorchEngine)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert isinstance(engine(), NumpyEngine)


def test_the_runtime_is_chosen_by_model_and_device(tmp_path):
    folder = write_tiny_model(tmp_path / "tiny")
    assert isinstance(LoadedModel.load(folder).engine, NumpyEngine)
    assert isinstance(LoadedModel.load(folder, runtime="torch").engine, TorchEngine)
    with pytest.raises(UserError, match=r"device 'cuda' needs torch"):
        LoadedModel.load(folder, device="cuda", runtime="numpy")
    with pytest.raises(UserError, match=r"runtime 'jax' is not one of: auto, numpy, onnx, torch"):
        LoadedModel.load(folder, runtime="jax")
    (folder / "checksums.json").unlink()
    config = folder / "config.json"
    config.write_text(config.read_text("utf-8").replace('"cell": "gru"', '"cell": "lstm"'), "utf-8")
    renew_checksum(config)
    with pytest.raises(UserError, match=r"decoder.cell = lstm needs torch"):
        LoadedModel.load(folder, runtime="numpy")
    with pytest.raises(UserError, match=r"do not fit"):  # torch, but the weights are of a GRU
        LoadedModel.load(folder)


# Without torch

SCRIPT = """
import sys
for name in ("torch", "scipy", "matplotlib", "librosa"):
    sys.modules[name] = None  # as if it were not installed
from asr.cli import main
status = main(sys.argv[1:])
loaded = {name.partition(".")[0] for name, module in sys.modules.items() if module is not None}
print(sorted(loaded & {"torch", "scipy", "librosa", "matplotlib"}), file=sys.stderr)
sys.exit(status)
"""


def without_torch(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)


ROOT = Path(__file__).parents[2]
SPEECH = ROOT / "data" / "speech"
CONFIG = ROOT / "recipes" / "tones" / "tones.toml"
RECORDING = SPEECH / "5683-32866-0027.flac"


def test_the_shipped_model_transcribes_and_aligns_without_torch(tmp_path):
    wanted = Recognizer.load(runtime="torch").transcribe(RECORDING)
    done = without_torch("transcribe", RECORDING)
    assert (done.returncode, done.stdout.strip()) == (0, wanted.written)
    assert done.stderr.splitlines()[-1] == "[]"
    found = Recognizer.load(runtime="numpy").transcribe(RECORDING)
    assert found.text == wanted.text
    close(found.weights, wanted.weights, atol=1e-4)
    assert found.log_probability == pytest.approx(wanted.log_probability, abs=1e-3)
    assert [each[:3] for each in found.words] == [each[:3] for each in wanted.words]
    translated = without_torch("translate", "good morning", "--to", "fr")
    assert (translated.returncode, translated.stdout) == (0, "Bonjour.\n")
    aligned = without_torch("align", RECORDING, "--text", "a cold bright moon")
    assert aligned.returncode == 0 and "bright" in aligned.stdout
    ids = tmp_path / "ids.txt"
    ids.write_text(RECORDING.stem + "\n", "utf-8")
    evaluated = without_torch("evaluate", SPEECH / "manifest.jsonl", "--ids", ids, "--beam", 1)
    assert evaluated.returncode == 0 and "WER" in evaluated.stdout


def test_what_needs_torch_says_so_in_one_line(tmp_path):
    for arguments in (
        ("transcribe", RECORDING, "--runtime", "torch"),
        ("train", CONFIG, tmp_path / "run", "--data", tmp_path),
        ("evaluate", SPEECH / "manifest.jsonl", "--limit", 1, "--beam", 1, "--attention"),
    ):
        done = without_torch(*arguments)
        error, loaded = done.stderr.splitlines()[-2:]
        assert (done.returncode, loaded) == (2, "[]"), arguments
        install = "pip install -c constraints.txt -e '.[train]'"
        assert error == f"asr: error: this needs torch, of the extra `train`: {install}"


@pytest.mark.parametrize("name", ["plain", "window"])
def test_dead_hypotheses_change_nothing_for_the_others(name):
    _, engine = engines(SUPPORTED[name])
    random = np.random.default_rng(2)
    encoded = engine.encode(audio(1.31, 0.7, 1.0))
    alive = np.array([[True, False, True], [False, False, False], [True, True, False]])
    for decoder in (
        engine.decoder(encoded.memory),
        engine.decoder_without_audio(encoded.memory),
    ):
        state = decoder.select(decoder.start(), np.zeros((3, 3), int))
        for _ in range(3):
            tokens = random.integers(1, SYMBOLS, (3, 3))
            every = decoder.step(tokens, state)
            some = decoder.step(tokens, state, alive)
            close(some.log_probs[alive], every.log_probs[alive])
            close(some.weights[alive], every.weights[alive])
            close(some.state.hidden[alive], every.state.hidden[alive])
            assert np.isfinite(some.log_probs).all()
            state = some.state
