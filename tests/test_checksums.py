"""Checksums of files and folders: every flipped bit is noticed, and nothing is half written."""

import errno
import json
import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from fuzzing.inputs import write_speech_model
from safetensors.numpy import load_file, save_file
from tiny_translator import write_tiny_translator

from asr.checksums import CHECKSUMS, renew_checksum, seal, unsealed, write_whole
from asr.cli import main
from asr.errors import UserError
from asr.inference.loaded import LoadedModel
from asr.inference.translator import Translator
from asr.lm.word_ngrams import WordNgrams
from asr.model_folder import NETWORKS
from asr.models.folder import save_folder
from asr.search.options import BeamSettings
from asr.search.pool import Pool
from asr.weights import read_arrays


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = write_speech_model(tmp_path_factory.mktemp("whole") / "model")
    for name in NETWORKS:
        renew_checksum(folder / name)
    return folder


@pytest.fixture
def model(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "model"))


def load(model):
    assert LoadedModel.load(model).language_model is not None


FILES = [
    "config.json",
    "vocabulary.json",
    "model.safetensors",
    "words.npz",
    *NETWORKS,
    "words/config.json",
    "words/words.json",
    "words/model.safetensors",
    CHECKSUMS,
]


@pytest.mark.parametrize("name", FILES)
def test_flipped_bits_of_every_file_of_a_model_are_noticed(model, name):
    load(model)
    content, drawn = (model / name).read_bytes(), random.Random(name)
    for _ in range(12):
        flipped = bytearray(content)
        flipped[drawn.randrange(len(content))] ^= 1 << drawn.randrange(8)
        if name == CHECKSUMS and flipped.split() == content.split():
            continue  # white space
        (model / name).write_bytes(flipped)
        with pytest.raises(UserError, match=r"damaged|format|not a") as caught:
            load(model)
        assert "\n" not in str(caught.value)
    (model / name).write_bytes(content)
    load(model)


def test_a_folder_of_an_earlier_version_loads(model):
    for path in model.rglob(CHECKSUMS):
        path.unlink()
    load(model)


def test_a_changed_file_is_refused_until_its_checksum_is_renewed(model, capsys):
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"decoding": {"beam": 3}}))
    with pytest.raises(UserError, match=r"asr check .* --renew"):
        load(model)
    assert main(["check", str(model)]) == 2
    told = capsys.readouterr()
    assert re.search(r"^config\.json +1 +damaged$", told.out, re.MULTILINE)
    assert "config.json: damaged" in told.err and len(told.err.splitlines()) == 1
    assert main(["check", str(model), "--renew"]) == 0
    assert "damaged" not in capsys.readouterr().out
    assert LoadedModel.load(model).decoding.beam == 3


def test_check_knows_a_model_beside_metrics_and_no_run_for_a_model(model, capsys):
    (model / "metrics.jsonl").write_text("{}\n")
    assert main(["check", str(model)]) == 0
    assert "\nmodel.safetensors" in capsys.readouterr().out
    (model / "model.safetensors").unlink()  # what is left looks like the folder of a run
    assert main(["check", str(model)]) == 0
    shown = capsys.readouterr().out
    assert "\nwords/model.safetensors" in shown and "\nconfig.json" not in shown


def test_check_names_a_missing_file_and_what_is_no_model(model, tmp_path, capsys):
    (model / "boundaries.safetensors").unlink()
    assert main(["check", str(model)]) == 2
    assert "boundaries.safetensors" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["check", str(tmp_path / "empty")]) == 2
    assert "neither a model folder nor" in capsys.readouterr().err


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["model.safetensors", "words/model.safetensors"])
def test_weights_that_are_not_finite_are_refused(model, name, value):
    arrays = load_file(model / name)
    first = next(iter(arrays))
    arrays[first] = arrays[first].copy()
    arrays[first].reshape(-1)[-1] = value
    save_file(arrays, model / name)
    for path in model.rglob(CHECKSUMS):
        path.unlink()
    with pytest.raises(UserError, match=f"{first} holds numbers that are not finite"):
        load(model)


def test_scores_that_are_not_numbers_are_one_line():
    with pytest.raises(UserError, match=r"the weights of the model.* are damaged"):
        Pool(BeamSettings(), limit=3, best=1).best()


def test_a_model_that_is_not_finite_is_not_saved(tmp_path):
    weights = {"a": torch.tensor([1e6])}
    with pytest.raises(UserError, match="a is not finite in 16 bits"):
        save_folder(tmp_path / "new", "speech", {}, {}, weights, {}, bits=16)
    assert not (tmp_path / "new" / "model.safetensors").exists()


@pytest.mark.parametrize("kind", ["fewer", "large", "shape", "type", "unsorted", "sum"])
def test_tables_of_word_ngrams_that_do_not_fit_are_refused(model, kind):
    with np.load(model / "words.npz") as file:
        arrays = {name: file[name] for name in file.files}
    match kind:
        case "fewer":
            arrays["last2"] = arrays["last2"][:-1]
        case "large":
            arrays["last2"] = np.full_like(arrays["last2"], 255)
        case "shape":
            arrays["levels3"] = arrays["levels3"][None]
        case "type":
            arrays["follow2"] = arrays["follow2"].astype(float)
        case "unsorted":
            arrays["last2"] = arrays["last2"][::-1].copy()
        case "sum":
            arrays["unigrams"] = -arrays["unigrams"]
    np.savez(model / "own.npz", **arrays)
    with pytest.raises(UserError, match=r"own\.npz: not a word n-gram model"):
        WordNgrams.load(model / "own.npz")


def test_a_recurrent_model_of_other_sizes_is_refused(model):
    file = model / "words" / "model.safetensors"
    arrays = load_file(file)
    save_file(arrays | {"vector.bias": np.zeros(9, np.float32)}, file)
    (model / "words" / CHECKSUMS).unlink()
    with pytest.raises(UserError, match=r"vector\.weight|vector\.bias"):
        load(model)


def test_a_malicious_pickle_is_never_executed(model, tmp_path):
    from fuzzing.damage import PICKLED, Malicious

    PICKLED.unlink(missing_ok=True)
    np.savez(model / "words.npz", words=np.array([Malicious()], dtype=object))
    (model / CHECKSUMS).unlink()
    with pytest.raises(UserError, match="not a word n-gram model"):
        load(model)
    from asr.training.state import read_content

    torch.save({"model": Malicious()}, tmp_path / "step-1.pt")
    with pytest.raises(UserError, match="not a checkpoint"):
        read_content(tmp_path / "step-1.pt")
    assert not PICKLED.exists()


def test_settings_larger_than_the_weights_allocate_nothing(model, tmp_path):
    translator = write_tiny_translator(tmp_path / "translator")
    for folder, sizes in ((model, "encoder"), (translator, "encoder")):
        config = json.loads((folder / "config.json").read_text())
        config["model"][sizes]["state_size"] = 60_000  # 43 GB in torch
        (folder / "config.json").write_text(json.dumps(config))
        (folder / CHECKSUMS).unlink()
    for runtime in ("numpy", "torch"):
        with pytest.raises(UserError, match="do not fit"):
            LoadedModel.load(model, runtime=runtime)
        with pytest.raises(UserError, match="do not fit"):
            Translator.load(translator, runtime=runtime)


def test_a_seal_holds_for_its_content_alone():
    content = b"some content"
    assert unsealed(content) == (content, False)
    assert unsealed(content + seal(content)) == (content, True)
    with pytest.raises(ValueError, match="differs"):
        unsealed(b"other content" + seal(content))


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old" and [each.name for each in tmp_path.iterdir()] == ["file"]


def test_arrays_of_a_model_can_be_written_to(model):
    assert all(each.flags.writeable for each in read_arrays(model / "model.safetensors").values())


@pytest.mark.parametrize("rows", [1, 3])
def test_a_matrix_of_8_bits_needs_one_factor_a_row(tmp_path, rows):
    file = tmp_path / "model.safetensors"
    matrix, factors = np.ones((2, 3), np.int8), np.full(rows, 0.5, np.float32)
    save_file({"matrix": matrix, "matrix.scale": factors}, file)
    with pytest.raises(UserError, match=r"damaged.*matrix\.scale does not fit matrix"):
        read_arrays(file)
    save_file({"matrix": matrix, "matrix.scale": np.array([0.5, 2.0], np.float32)}, file)
    (found,) = read_arrays(file).values()
    np.testing.assert_array_equal(found, [[0.5] * 3, [2.0] * 3])
