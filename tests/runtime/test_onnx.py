"""The ONNX graphs of a model compute what the model computes, and a folder with them is a model."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from fake_encoder import fake_encoder
from small_models import PLAIN, SUPPORTED, SYMBOLS, UNSUPPORTED, audio, close, random_model, row_of
from tiny_model import write_tiny_model
from tiny_punctuator import write_tiny_punctuator
from tiny_translator import write_tiny_translator

from asr.checksums import renew_checksum
from asr.cli import main
from asr.errors import UserError
from asr.inference.loaded import LoadedModel
from asr.inference.recognizer import Recognizer
from asr.models.encoders import public
from asr.models.settings import SpeechSettings
from asr.runtime.numpy_runtime.engine import NumpyEngine
from asr.runtime.onnx_runtime import export as exporting
from asr.runtime.onnx_runtime.encoder import encoder_graph
from asr.runtime.onnx_runtime.engine import GraphEncoder, GraphStep
from asr.runtime.onnx_runtime.export import export, not_exported
from asr.runtime.onnx_runtime.features import features_graph
from asr.runtime.onnx_runtime.graph import Graph, as_stored, floats
from asr.runtime.onnx_runtime.step import step_graph
from asr.runtime.torch_engine import TorchEngine
from asr.weights import StoredWeights

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "data" / "speech" / "5683-32866-0027.flac"
EXPORTED = {
    name: settings
    for name, settings in SUPPORTED.items()
    if not (settings.attention.has_window or settings.attention.silence_mask)
}


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    monkeypatch.setattr(public, "load_public", fake_encoder)


def session(graph: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(graph.SerializeToString())


def engines(settings: SpeechSettings) -> tuple[TorchEngine, NumpyEngine]:
    """Make a random model, and engines in torch and in onnxruntime around its weights."""
    model = random_model(settings)
    weights = StoredWeights({name: value.numpy() for name, value in model.state_dict().items()})
    encoder = GraphEncoder(session(encoder_graph(settings, weights, {})))
    step = GraphStep(session(step_graph(settings, weights, {})))
    return TorchEngine(model), NumpyEngine(settings, weights, SYMBOLS, encoder, step)


@pytest.mark.parametrize("settings", EXPORTED.values(), ids=EXPORTED)
def test_graphs_encode_and_step_like_torch(settings):
    torch_engine, engine = engines(settings)
    given = audio(1.31, 0.7, 1.0)
    wanted, found = torch_engine.encode(given), engine.encode(given)
    assert found.lengths.tolist() == wanted.lengths.tolist()
    assert engine.seconds_per_annotation == torch_engine.seconds_per_annotation
    for row, (length, frames) in enumerate(zip(wanted.lengths, wanted.ctc_lengths, strict=True)):
        close(found.memory.values[row, :length], wanted.memory.values[row, :length])
        if wanted.ctc is not None:
            close(found.ctc[row, :frames], wanted.ctc[row, :frames])
    decoders = torch_engine.decoder(wanted.memory), engine.decoder(found.memory)
    states = [each.select(each.start(), np.zeros((3, 2), np.int64)) for each in decoders]
    random = np.random.default_rng(1)
    for _ in range(5):
        tokens = random.integers(1, SYMBOLS, (3, 2))
        one, other = (each.step(tokens, s) for each, s in zip(decoders, states, strict=True))
        close(other.log_probs, one.log_probs, atol=1e-4)
        close(other.weights, one.weights)
        states = [one.state, other.state]


def test_a_recording_does_not_depend_on_its_batch():
    _, engine = engines(PLAIN)
    given = audio(1.31, 0.72)  # the second has an odd number of frames after a convolution
    together = engine.encode(given)
    for row, length in enumerate(together.lengths):
        alone = engine.encode(row_of(given, row))
        close(together.memory.values[row, :length], alone.memory.values[0], atol=1e-5)
        one, other = engine.decoder(together.memory), engine.decoder(alone.memory)
        tokens = np.array([[3]] * 2)
        first, second = one.step(tokens, one.start()), other.step(tokens[:1], other.start())
        close(first.log_probs[row], second.log_probs[0], atol=1e-5)


def test_the_graph_computes_steps_of_one_hypothesis_alone():
    _, engine = engines(PLAIN)
    graph, given = engine._decoder._given_step, []

    def step(tokens, state, memory):
        given.append(tokens.shape)
        return graph(tokens, state, memory)

    engine._decoder._given_step = step
    decoder = engine.decoder(engine.encode(audio(1.31, 0.7)).memory)
    state = decoder.step(np.array([[1], [1]]), decoder.start()).state
    twice = decoder.select(state, np.zeros((2, 2), np.int64))
    stepped = decoder.step(np.array([[3, 4], [4, 3]]), twice)
    assert given == [(2, 1)]
    for slot in range(2):  # both agree
        single = decoder.step(np.array([[3, 4], [4, 3]])[:, slot, None], state)
        close(stepped.log_probs[:, slot], single.log_probs[:, 0], atol=1e-4)
    assert given == [(2, 1)] * 3


def test_a_window_that_is_set_later_restricts_the_attention():
    torch_engine, engine = engines(PLAIN)
    given, narrow = audio(1.3), SUPPORTED["window"].attention
    wanted, _ = torch_engine.windowed(narrow).force(torch_engine.encode(given).memory, [4, 2, 7])
    close(engine.windowed(narrow).force(engine.encode(given).memory, [4, 2, 7])[0], wanted)


@pytest.mark.parametrize("name", ["plain", "mean-kept"])
def test_the_graph_of_the_features_computes_those_of_the_model(name):
    settings = SUPPORTED[name]
    model = random_model(settings)
    weights = StoredWeights({name: value.numpy() for name, value in model.state_dict().items()})
    graph = session(features_graph(settings, weights, {}))
    given = audio(0.5, 0.0244, 0.0251, 0.04)  # the second is shorter than a window
    wanted = TorchEngine(model).encode(given)
    given.samples[1, int(given.lengths[1]) :] = 0.7  # padding is not read …
    found, counts = graph.run(None, {"samples": given.samples, "lengths": given.lengths})
    assert counts.tolist() == [len(each) for each in wanted.features] == [48, 0, 1, 2]
    for row, features in zip(found, wanted.features, strict=True):
        close(row[: len(features)], features, atol=2e-3)  # logarithms near 1e-10
        assert not row[len(features) :].any()  # … nor written


def test_in_8_bits_too_a_recording_does_not_depend_on_its_batch(tmp_path):
    export(write_tiny_model(tmp_path / "model"), tmp_path / "int8", int8=True)
    engine = LoadedModel.load(tmp_path / "int8").engine
    given = audio(1.31, 0.7)
    given.samples[1] *= 9  # so that a scale of both would not be that of the first
    together = engine.encode(given)
    for row, length in enumerate(together.lengths):
        alone = engine.encode(row_of(given, row))
        close(together.memory.values[row, :length], alone.memory.values[0], atol=1e-6)
    assert engine.encode(given).memory.values.shape[0] == 2


# Constants in fewer bits

VALUES = np.random.default_rng(1).standard_normal((96, 64)).astype(np.float32)
WHOLE = np.concatenate(
    [np.full((96, 1), 127), np.random.default_rng(2).integers(-126, 127, (96, 63))], 1
)
FACTORS = np.abs(VALUES[:, :1])


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        (VALUES, onnx.TensorProto.FLOAT),
        (VALUES.astype(np.float16).astype(np.float32), onnx.TensorProto.FLOAT16),
        ((WHOLE * FACTORS).astype(np.float32), onnx.TensorProto.INT8),
        ((WHOLE * FACTORS).astype(np.float32).T, onnx.TensorProto.INT8),
        (np.zeros((96, 64), np.float32), onnx.TensorProto.FLOAT16),
        ((WHOLE * FACTORS).astype(np.float32)[:48], onnx.TensorProto.FLOAT),  # small
        (np.abs(VALUES.reshape(768, 1, 8)), onnx.TensorProto.FLOAT),  # a factor for 1 or 8 numbers
    ],
)
def test_a_constant_is_stored_in_the_bits_that_it_had(matrix, kind):
    graph = Graph(StoredWeights({}))
    total = graph.add("Mul", "given", graph.constant(matrix, "matrix"))
    port = floats("batch", *matrix.shape)
    whole = graph.model("product", {"given": port}, {"found": (total, port)}, {})
    stored = as_stored(whole)
    (constant,) = (each for each in stored.graph.initializer if not each.name.endswith(".scale"))
    assert constant.data_type == kind
    ones = np.ones((2, *matrix.shape), np.float32)
    for each in (whole, stored):
        (found,) = session(each).run(None, {"given": ones})
        np.testing.assert_allclose(found[1], matrix, rtol=1e-6)


# Which models


def test_a_model_is_exported_or_the_reason_is_given():
    for settings in (*SUPPORTED.values(), *UNSUPPORTED.values()):
        assert (not_exported(settings) is None) == (settings in EXPORTED.values())


def test_what_cannot_be_exported_leaves_nothing(tmp_path, capsys):
    target = tmp_path / "out"
    masked = write_tiny_model(tmp_path / "masked", silence_mask=True)
    dots = write_tiny_translator(tmp_path / "dots", kind="scaled_dot")
    translator = write_tiny_translator(tmp_path / "translator")
    written = write_tiny_punctuator(tmp_path / "written")
    for source, options, problem in (
        (masked, [], "not exported: the graphs have no attention.silence_mask = true"),
        (dots, [], 'not exported: the graphs have no attention.kind = "scaled_dot"'),
        (translator, ["--int8"], "a model for translation: only speech is encoded in int8"),
        (written, [], "a model for written has no graphs"),
        (tmp_path / "nothing", [], "not a model folder"),
    ):
        assert main(["export", str(source), str(target), *options]) == 2
        assert problem in capsys.readouterr().err
    target.mkdir()
    assert main(["export", str(write_tiny_model(tmp_path / "tiny")), str(target)]) == 2
    assert "exists" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        *("dots", "masked", "out", "tiny", "translator", "written")
    ]


def test_graphs_that_differ_from_the_model_are_not_written(tmp_path, monkeypatch):
    def other(settings, weights, notes):
        name = "encoder.layers.1.back.weight_hh_l0"
        return encoder_graph(settings, {**weights, name: weights[name] * 1.01}, notes)

    source = write_tiny_model(tmp_path / "tiny")
    monkeypatch.setattr(exporting, "encoder_graph", other)
    with pytest.raises(UserError, match=r"not written: encoder.onnx differs by \d"):
        export(source, tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["tiny"]


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("name", ["encoder.last_norm.bias", "ctc.output.bias"])
def test_graphs_that_give_no_numbers_are_not_written(tmp_path, monkeypatch, name, int8):
    def other(settings, weights, notes):
        return encoder_graph(
            settings, {**weights, name: np.full_like(weights[name], np.nan)}, notes
        )

    source = write_tiny_model(tmp_path / "tiny")
    monkeypatch.setattr(exporting, "encoder_graph", other)
    with pytest.raises(UserError, match=r"not written: encoder.onnx differs by inf"):
        export(source, tmp_path / "out", int8=int8)


# A folder with graphs


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("onnx")
    export(write_tiny_model(folder / "model"), folder / "exported")
    return folder / "exported"


def test_a_folder_is_run_by_its_graphs(tiny):
    def uses_graphs(runtime: str) -> bool:
        engine = LoadedModel.load(tiny, runtime=runtime).engine
        return isinstance(engine, NumpyEngine) and isinstance(engine._encoder, GraphEncoder)

    assert uses_graphs("auto") and uses_graphs("onnx")
    assert not uses_graphs("numpy") and not uses_graphs("torch")


def test_a_graph_says_of_what_it_was_made(tiny):
    for name in ("features", "encoder", "step"):
        graph = onnx.load(tiny / f"{name}.onnx")
        assert [each.version for each in graph.opset_import] == [17]
        notes = {each.key: each.value for each in graph.metadata_props}
        assert notes["vocabulary"] == (tiny / "vocabulary.json").read_text("utf-8")
        sizes = [each.dim_param for each in graph.graph.input[0].type.tensor_type.shape.dim]
        assert sizes[0] == "batch" and sizes[1]  # both free


def test_a_folder_that_is_not_whole_is_refused_in_one_line(tiny, tmp_path, capsys):
    def copy(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for each in tiny.iterdir():
            (folder / each.name).write_bytes(each.read_bytes())
        return folder

    missing, damaged, other = map(copy, ("missing", "damaged", "other"))
    (missing / "step.onnx").unlink()
    (damaged / "encoder.onnx").write_bytes(b"\x08\x08")
    renew_checksum(damaged / "encoder.onnx")
    weights = (write_tiny_model(tmp_path / "no-ctc", ctc=False) / "model.safetensors").read_bytes()
    (other / "model.safetensors").write_bytes(weights)
    renew_checksum(other / "model.safetensors")
    for folder, problem in (
        (missing, "step.onnx: no graph there; make it with: asr export MODEL FOLDER"),
        (damaged, "encoder.onnx: damaged, or not an ONNX graph"),
        (other, "made of other weights than model.safetensors; run asr export again"),
    ):
        assert main(["transcribe", str(RECORDING), "-m", str(folder)]) == 2
        error = capsys.readouterr().err
        assert problem in error and len(error.splitlines()) == 1


SCRIPT = """
import sys
sys.modules["onnxruntime"] = None  # as if it were not installed
from asr.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_onnxruntime_numpy_computes_and_what_needs_it_says_so(tiny, tmp_path):
    def run(*arguments: object) -> tuple[int, str]:
        command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
        return done.returncode, done.stderr

    transcribe = ("transcribe", RECORDING, "-m", tiny, "--beam", 1)
    assert run(*transcribe) == (0, "")
    install = "pip install -c constraints.txt -e '.[onnx]'"
    error = f"asr: error: this needs onnxruntime, of the extra `onnx`: {install}\n"
    assert run(*transcribe, "--runtime", "onnx") == (2, error)
    assert run("export", tiny, tmp_path / "out") == (2, error)


# The shipped model


@pytest.fixture(scope="module")
def english(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("english")
    export(Path("english"), folder / "exact")
    export(Path("english"), folder / "int8", int8=True)
    return folder


def test_the_shipped_model_writes_the_same_with_its_graphs(english):
    wanted = Recognizer.load(runtime="numpy").transcribe(RECORDING)
    found = Recognizer.load(english / "exact").transcribe(RECORDING)
    assert found.written == wanted.written
    close(found.weights, wanted.weights, atol=1e-4)
    assert found.log_probability == pytest.approx(wanted.log_probability, abs=1e-3)
    assert [each[:3] for each in found.words] == [each[:3] for each in wanted.words]


def test_the_graphs_of_weights_in_8_bits_are_as_small(english):
    weights = (english / "exact" / "model.safetensors").stat().st_size
    for each in ("exact", "int8"):
        graphs = sum(
            (english / each / f"{name}.onnx").stat().st_size for name in ("encoder", "step")
        )
        assert graphs < 1.1 * weights


def test_the_encoder_in_8_bits_writes_nearly_the_same(english):
    exact, int8 = (
        Recognizer.load(english / each).configured(beam=1).transcribe(RECORDING)
        for each in ("exact", "int8")
    )
    pairs = zip(int8.text.split(), exact.text.split(), strict=True)
    assert sum(one != other for one, other in pairs) <= 3  # of twelve words
    assert int8.log_probability != exact.log_probability


def test_the_example_transcribes_the_sample_by_onnxruntime_alone(english, capsys, monkeypatch):
    script = str(ROOT / "docs" / "onnx_transcribe.py")
    monkeypatch.setattr(sys, "argv", [script, str(english / "exact"), str(RECORDING)])
    runpy.run_path(script, run_name="__main__")
    greedy = Recognizer.load(runtime="numpy").configured(beam=1, fastest=0)
    assert capsys.readouterr().out.strip() == greedy.transcribe(RECORDING).text
    assert "asr" not in Path(script).read_text("utf-8").split('"""')[2]
