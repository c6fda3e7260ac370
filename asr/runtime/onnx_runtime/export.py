"""Writing a model folder that also holds its ONNX graphs; see docs/export.md."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from math import isinf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from asr.checksums import CHECKSUMS, digest, write_checksums
from asr.errors import UserError
from asr.lm.recurrent import EMBEDDING, LSTMWords
from asr.model_folder import (
    CARD,
    CONFIG,
    ENCODER_GRAPH,
    FEATURES_GRAPH,
    LANGUAGE_MODEL,
    STEP_GRAPH,
    WEIGHTS,
    ModelFolder,
    read_folder,
)
from asr.models.settings import LanguageSettings, SpeechSettings, TranslationSettings
from asr.runtime.numpy_runtime import decoder, translation
from asr.runtime.numpy_runtime.engine import NumpyEngine
from asr.runtime.numpy_runtime.translation import NumpyTextEngine
from asr.runtime.onnx_runtime.encoder import encoder_graph
from asr.runtime.onnx_runtime.engine import BITS, WEIGHTS_DIGEST
from asr.runtime.onnx_runtime.features import features_graph
from asr.runtime.onnx_runtime.graph import as_stored
from asr.runtime.onnx_runtime.step import step_graph
from asr.runtime.onnx_runtime.text_encoder import text_encoder_graph
from asr.runtime.onnx_runtime.verify import (
    differences_of_speech,
    differences_of_text,
    differences_of_words,
)
from asr.runtime.onnx_runtime.words import words_graph
from asr.tables import from_table
from asr.text.vocabulary import of_both_sides
from asr.weights import read_arrays

LARGEST_DIFFERENCE = 1e-4  # of a float32 graph from the NumPy engine
Settings = TypeVar("Settings", SpeechSettings, TranslationSettings)
Notes = Mapping[str, str]  # the metadata of a graph


class Exported(NamedTuple):
    """A graph: its file, and the largest difference of its outputs from the NumPy engine."""

    file: Path
    difference: float


class _Graphs(NamedTuple):
    """How to make the graphs of a model folder, by the names of their files, and verify them.

    differences: of those in a folder, the largest of each from what NumPy computes.
    """

    make: dict[str, Callable[[Notes], onnx.ModelProto]]
    differences: Callable[[Path], dict[str, float]]


def not_exported(settings: SpeechSettings | TranslationSettings) -> str | None:
    """Return the first setting of a model that the graphs do not have; None if they have all."""
    if isinstance(settings, TranslationSettings):
        reason = translation.unsupported(settings)
    else:
        reason = decoder.unsupported(settings.attention, settings.decoder)
        if settings.attention.silence_mask:
            reason = reason or "attention.silence_mask = true"
    if reason is None and settings.attention.has_window:
        return f"attention.window_back = {settings.attention.window_back}"
    return reason


def export(source: Path, target: Path, int8: bool = False) -> list[Exported]:
    """Copy a model to a new folder, together with its graphs, and verify these.

    The recurrent language model in the folder of a speech model gets its graph as well.
    int8: the encoder computes in 8 bits; of a speech model alone.

    Raises:
        UserError: the source is no model that has graphs, or has a setting that is not exported;
            the target exists; a float32 graph differs from the NumPy engine by more than 1e-4, or
            a graph of 8 bits gives what is not finite.
    """
    folder = read_folder(source)
    if int8 and folder.task != "speech":
        raise UserError(f"{folder.path}: a model for {folder.task}: only speech is encoded in int8")
    graphs = {Path(): (folder, _graphs(folder))}
    words = Path(LANGUAGE_MODEL).with_suffix("")
    if folder.task == "speech" and (folder.path / words / CONFIG).is_file():
        own = read_folder(folder.path / words, "language")
        graphs[words] = own, _graphs(own)
    if target.exists():
        raise UserError(f"{target}: exists; name a new folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    exported = []
    with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as place:
        written = Path(place) / "model"
        shutil.copytree(folder.path, written)
        for inside, (each, its) in graphs.items():
            differences = _write(each, its, written / inside, target / inside, int8)
            exported += [Exported(target / inside / name, one) for name, one in differences.items()]
        written.rename(target)
    return exported


def _graphs(folder: ModelFolder) -> _Graphs:
    """Read the weights of a model folder.

    Raises:
        UserError: they are damaged, do not fit, or the model cannot be exported.
    """
    kinds = {"speech": _of_speech, "translation": _of_translation, "language": _of_language}
    if folder.task not in kinds:
        raise UserError(f"{folder.path}: a model for {folder.task} has no graphs")
    try:
        return kinds[folder.task](folder)
    except (ValueError, KeyError) as error:
        raise UserError(f"{folder.path / WEIGHTS}: {error}") from error


def _of_speech(folder: ModelFolder) -> _Graphs:
    settings = _exportable(folder, from_table(SpeechSettings, folder.model))
    weights = read_arrays(folder.path / WEIGHTS)
    engine = NumpyEngine(settings, weights, len(weights["decoder.embedding.weight"]))
    make = {
        ENCODER_GRAPH: lambda notes: encoder_graph(settings, weights, notes),
        STEP_GRAPH: lambda notes: step_graph(settings, weights, notes),
    }
    if settings.encoder.kind != "frozen":
        make[FEATURES_GRAPH] = lambda notes: features_graph(settings, weights, notes)
    return _Graphs(make, lambda place: differences_of_speech(engine, place))


def _of_translation(folder: ModelFolder) -> _Graphs:
    settings = _exportable(folder, from_table(TranslationSettings, folder.model))
    weights = read_arrays(folder.path / WEIGHTS)
    source, target = of_both_sides(folder.path, folder.vocabularies)
    engine = NumpyTextEngine(settings, weights, len(source), len(target))
    make = {
        ENCODER_GRAPH: lambda notes: text_encoder_graph(settings, weights, notes),
        STEP_GRAPH: lambda notes: step_graph(settings, weights, notes),
    }
    return _Graphs(make, lambda place: differences_of_text(engine, place))


def _of_language(folder: ModelFolder) -> _Graphs:
    settings = from_table(LanguageSettings, folder.model)
    weights = read_arrays(folder.path / WEIGHTS, packed=[EMBEDDING])
    model = LSTMWords(weights)
    make = {STEP_GRAPH: lambda notes: words_graph(settings, weights, notes)}
    return _Graphs(make, lambda place: differences_of_words(model, place))


def _exportable(folder: ModelFolder, settings: Settings) -> Settings:
    if (reason := not_exported(settings)) is not None:
        raise UserError(f"{folder.path}: not exported: the graphs have no {reason}")
    return settings


def _write(
    folder: ModelFolder, graphs: _Graphs, written: Path, target: Path, int8: bool
) -> dict[str, float]:
    """Write graphs into a copy of their folder, and return their largest differences.

    Raises:
        UserError: one of them is too large, with the name that the file would have had in target.
    """
    notes = {WEIGHTS_DIGEST: digest((folder.path / WEIGHTS).read_bytes()), **folder.vocabularies}
    for name, make in graphs.make.items():
        if int8 and name == ENCODER_GRAPH:
            graph = _quantised(make({**notes, BITS: "8"}), written / name)
        else:
            graph = make(notes)
        onnx.save(as_stored(graph), written / name)
    differences = graphs.differences(written)
    for name, difference in differences.items():
        exact = not (int8 and name == ENCODER_GRAPH)
        if difference > LARGEST_DIFFERENCE and (exact or isinf(difference)):
            raise UserError(f"{target}: not written: {name} differs by {difference:.1e}")
    write_checksums(written, {each.name for each in written.iterdir()} - {CHECKSUMS, CARD})
    return differences


def _quantised(model: onnx.ModelProto, file: Path) -> onnx.ModelProto:
    """Return a graph whose LSTMs are in 8 bits, with a scale for each row of their weights.

    file: onnxruntime writes it.

    Activations get their scales while the graph runs, one for each input of an operator. The other
    matrix products stay in float32: they take a tenth of the time, and that of `encoder.reduce`,
    whose inputs are not normalised, would double the error.
    """
    inferred = onnx.shape_inference.infer_shapes(model)
    # The mark of a graph with inferred sizes, without which quantize_dynamic warns.
    inferred.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    quantize_dynamic(
        inferred,
        file,
        op_types_to_quantize=["LSTM"],
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,  # 7 bits: sums of 8 × 8 bits overflow on processors without VNNI
    )
    return onnx.load(file)
