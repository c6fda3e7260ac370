"""The graphs of translation and language models, and folders with them."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from test_numpy_translation import SIZES, SUPPORTED, UNSUPPORTED
from test_onnx import RECORDING
from tiny_model import write_tiny_model
from tiny_translator import write_tiny_translator

from asr.checksums import renew_checksum
from asr.cli import main
from asr.errors import UserError
from asr.inference.loaded import LoadedModel
from asr.inference.translator import Translator
from asr.lm.estimation import lexicon_of, train_word_ngrams
from asr.lm.recurrent import EMBEDDING, LSTMWords
from asr.models.folder import save_folder
from asr.models.language import build_language_model
from asr.models.settings import LanguageSettings, TranslationSettings
from asr.models.translation import build_translation_model
from asr.runtime.numpy_runtime.translation import NumpyTextEngine
from asr.runtime.onnx_runtime import export as exporting
from asr.runtime.onnx_runtime.engine import (
    GraphStep,
    GraphTextEncoder,
    GraphWords,
)
from asr.runtime.onnx_runtime.export import export, not_exported
from asr.runtime.onnx_runtime.step import step_graph
from asr.runtime.onnx_runtime.text_encoder import text_encoder_graph
from asr.runtime.onnx_runtime.words import words_graph
from asr.runtime.torch_engine import TorchTextEngine
from asr.tables import to_table
from asr.text.vocabulary import SPECIALS, Vocabulary
from asr.weights import StoredWeights, read_arrays

WORDS = Vocabulary((*SPECIALS, "the", "cat", "sat", "on", "a", "mat", "dog", "and"), None, True)
SENTENCES = [*map(str.split, ("the cat sat on the mat", "a dog and a cat", "the dog sat"))]


def session(graph: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(graph.SerializeToString())


def random_weights(model: torch.nn.Module) -> StoredWeights:
    for parameter in model.eval().requires_grad_(False).parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return StoredWeights({name: value.numpy() for name, value in model.state_dict().items()})


# Translation


def engines(settings: TranslationSettings) -> tuple[TorchTextEngine, NumpyTextEngine]:
    torch.manual_seed(4)
    model = build_translation_model(settings, *SIZES)
    weights = random_weights(model)
    encoder = GraphTextEncoder(session(text_encoder_graph(settings, weights, {})))
    step = GraphStep(session(step_graph(settings, weights, {})))
    return TorchTextEngine(model), NumpyTextEngine(settings, weights, *SIZES, encoder, step)


@pytest.mark.parametrize("settings", SUPPORTED.values(), ids=SUPPORTED)
def test_the_graphs_of_a_translator_compute_what_torch_computes(settings):
    tokens, lengths = np.array([[4, 3, 5, 7], [8, 1, 0, 0]]), np.array([4, 2])
    found = []
    for engine in engines(settings):
        decoder, steps = engine.decoder(engine.encode(tokens, lengths).memory), []
        state = decoder.start()
        for last in ([[1], [1]], [[5], [3]], [[2], [8]]):
            stepped = decoder.step(np.array(last), state)
            state = stepped.state
            steps += [stepped.log_probs, stepped.weights]
        found.append(steps)
        assert not steps[1][1, 0, 2:].any()  # no attention to padding
    for wanted, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-5)


@pytest.mark.parametrize("settings", SUPPORTED.values(), ids=SUPPORTED)
def test_the_graph_of_a_text_encoder_has_keys_and_first_state(settings):
    torch_engine, engine = engines(settings)
    tokens, lengths = np.array([[4, 3, 5], [8, 1, 0]]), np.array([3, 2])
    names = ["annotations", "mask", "keys", "hidden"]
    given = {"tokens": tokens, "lengths": lengths}
    found = dict(zip(names, engine._encoder._session.run(names, given), strict=True))
    memory = torch_engine.encode(tokens, lengths).memory
    inside = memory.mask.numpy()
    assert (found["mask"] == inside).all()
    for name, wanted in (("annotations", memory.values), ("keys", memory.keys)):
        np.testing.assert_allclose(found[name][inside], wanted.numpy()[inside], atol=2e-5)
    start = torch_engine.decoder(memory).start()
    np.testing.assert_allclose(found["hidden"], start.hidden.numpy(), atol=2e-5)


def test_a_translator_is_exported_or_the_reason_is_given():
    assert all(not_exported(each) is None for each in SUPPORTED.values())
    assert all(not_exported(each) for each in UNSUPPORTED.values())


def test_a_translator_with_graphs_is_run_by_them_and_translates_the_same(tmp_path):
    export(write_tiny_translator(tmp_path / "model"), tmp_path / "exported")
    texts = ["go . i lost .", "i'm home !", "!"]
    runs = {
        runtime: Translator.load(tmp_path / "exported", runtime=runtime)
        for runtime in ("auto", "onnx", "numpy", "torch")
    }
    for runtime, translator in runs.items():
        uses_graphs = isinstance(getattr(translator.engines[0], "_encoder", None), GraphTextEncoder)
        assert uses_graphs == (runtime in ("auto", "onnx"))
        for beam in (1, 3):
            found = translator.translate(texts, beam=beam)
            wanted = runs["numpy"].translate(texts, beam=beam)
            assert [each.text for each in found] == [each.text for each in wanted]
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one.weights, other.weights, atol=1e-4)


# Language models


@pytest.mark.parametrize("cutoffs", [(), (6,), (4, 7), (4, 7, 10)])
def test_the_graph_of_a_language_model_steps_like_torch(cutoffs):
    torch.manual_seed(3)
    settings = LanguageSettings(5, 6, 4, cutoffs, 0.0)
    network = build_language_model(settings, len(WORDS))
    graph = GraphWords(session(words_graph(settings, random_weights(network), {})))
    assert (graph.size, graph.state_size) == (len(WORDS), 6)
    state, output, cell = network.start(3), *[np.zeros((3, 6), np.float32)] * 2
    for words in ([1, 4, 10], [3, 3, 9], [6, 8, 5]):
        log_probs, state = network.step(torch.tensor(words), state)
        probabilities, output, cell = graph.step(np.array(words), output, cell)
        np.testing.assert_allclose(np.log(probabilities), log_probs, atol=1e-5)
        np.testing.assert_allclose(output, state.output, atol=1e-6)
        np.testing.assert_allclose(cell, state.cell, atol=1e-6)


def write_language_model(folder, bits=8):
    torch.manual_seed(5)
    settings = LanguageSettings(8, 6, 4, (6,), 0.0)
    network = build_language_model(settings, len(WORDS))
    random_weights(network)
    vocabularies = {"words": WORDS.to_json()}
    table = to_table(settings)
    save_folder(folder, "language", table, vocabularies, network.state_dict(), {}, bits=bits)
    return folder


def test_an_embedding_in_8_bits_stays_in_8_bits(tmp_path):
    for bits, kind in ((8, onnx.TensorProto.INT8), (16, onnx.TensorProto.FLOAT)):
        source = write_language_model(tmp_path / f"model{bits}", bits)
        target = tmp_path / f"exported{bits}"
        (exported,) = export(source, target)
        assert exported.file == target / "step.onnx" and exported.difference < 1e-5
        graph = onnx.load(exported.file)
        (table,) = (each for each in graph.graph.initializer if each.name == EMBEDDING)
        assert table.data_type == kind
        notes = {each.key: each.value for each in graph.metadata_props}
        assert Vocabulary.from_json(notes["words"]) == WORDS
        model = LSTMWords(read_arrays(source / "model.safetensors"))
        state = [np.ones((2, 6), np.float32)] * 2
        words = np.array([4, 9])
        found, wanted = (each.step(words, *state) for each in (GraphWords.load(target), model))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_graph_that_is_wrong_about_rare_words_is_not_written(tmp_path, monkeypatch):
    source = write_language_model(tmp_path / "model", bits=32)
    weights = read_arrays(source / "model.safetensors")
    gate, changed = weights["first.bias"].copy(), weights["rarer.0.1.bias"].copy()
    gate[-1] -= 9  # of the rarer words: probabilities below 1e-4 …
    changed[0] += 1e-2  # … which differ by a hundredth
    rare = StoredWeights({**weights, "first.bias": gate})
    monkeypatch.setattr(exporting, "read_arrays", lambda file, packed: rare)

    def wrong(settings, weights, notes):
        return words_graph(settings, StoredWeights({**weights, "rarer.0.1.bias": changed}), notes)

    monkeypatch.setattr(exporting, "words_graph", wrong)
    with pytest.raises(UserError, match=r"not written: step.onnx differs by \d"):
        export(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def speaking(tmp_path):
    """Write a speech model with n-grams and a recurrent language model, and its graphs."""
    folder = write_tiny_model(tmp_path / "speech")
    train_word_ngrams(SENTENCES, lexicon_of(SENTENCES, 1), 3, 12).save(folder / "words.npz")
    write_language_model(folder / "words")
    exported = export(folder, tmp_path / "exported")
    names = [str(each.file.relative_to(tmp_path / "exported")) for each in exported]
    assert names == ["encoder.onnx", "step.onnx", "features.onnx", "words/step.onnx"]
    return tmp_path / "exported"


def test_the_language_model_of_a_folder_is_run_by_its_graph(speaking):
    def step_of(loaded):
        return loaded.language_model._recurrent._model

    for runtime, kind in (
        *(("auto", GraphWords), ("onnx", GraphWords)),
        *(("numpy", LSTMWords), ("torch", LSTMWords)),
    ):
        loaded = LoadedModel.load(speaking, runtime=runtime)
        assert isinstance(step_of(loaded), kind)
        other = speaking.parent / "speech" / "words.npz"  # without a graph
        assert isinstance(step_of(loaded.with_language_model(other)), LSTMWords)
        back = loaded.with_language_model(other).with_language_model(speaking / "words.npz")
        assert isinstance(step_of(back), kind)


def test_a_language_model_whose_graph_is_not_its_own_is_refused(speaking, tmp_path, capsys):
    weights = write_language_model(tmp_path / "other", bits=16) / "model.safetensors"
    replaced = speaking / "words" / "model.safetensors"
    replaced.write_bytes(weights.read_bytes())
    renew_checksum(replaced)
    arguments = ["transcribe", str(RECORDING), "-m", str(speaking), "--beam", "4"]
    assert main(arguments) == 2
    assert "made of other weights" in capsys.readouterr().err
    assert main([*arguments, "--runtime", "numpy"]) == 0


def test_check_finds_a_damaged_graph_of_the_language_model(speaking, capsys):
    assert main(["check", str(speaking)]) == 0
    capsys.readouterr()
    graph = speaking / "words" / "step.onnx"
    assert "step.onnx" in json.loads((graph.parent / "checksums.json").read_text())["sha256"]
    graph.write_bytes(graph.read_bytes()[:-1] + b"?")
    assert main(["check", str(speaking)]) == 2
    assert "words/step.onnx" in capsys.readouterr().err
