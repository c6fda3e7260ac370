"""Model folders: quantised weights, and folders that are refused."""

import json

import pytest
import torch
from safetensors.torch import load_file
from tiny_model import write_tiny_model
from torch import nn

from asr.checksums import renew_checksum
from asr.errors import UserError
from asr.models.folder import (
    BOUNDARIES,
    WEIGHTS,
    copy_folder,
    load_weights,
    read_folder,
    save_folder,
)


def save(path, module, bits):
    save_folder(path, "speech", {}, {}, module.state_dict(), {}, bits)


def make():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv1d(3, 4, 5), nn.Linear(7, 6), nn.Embedding(5, 2))


@pytest.mark.parametrize(("bits", "error"), [(32, 0.0), (16, 1e-3), (8, 0.5 / 127)])
def test_weights_come_back_as_exactly_as_their_bits_allow(tmp_path, bits, error):
    module, loaded = make(), make()
    with torch.no_grad():
        module[1].weight[2] *= 1000  # a large row does not affect the others
        module[1].weight[3] = 0
        for parameter in loaded.parameters():
            parameter.zero_()
    save(tmp_path, module, bits)
    load_weights(loaded, tmp_path)
    for name, value in module.state_dict().items():
        rows = value.flatten(1) if value.dim() > 1 else value[:, None]
        off = (loaded.state_dict()[name] - value).abs().view(rows.shape)
        assert (off <= error * rows.abs().amax(1, keepdim=True) + 1e-7).all()
    sizes = {32: 4, 16: 2, 8: 1}
    assert load_file(tmp_path / WEIGHTS)["1.weight"].element_size() == sizes[bits]


def test_a_copy_is_a_model_folder(tmp_path):
    folder = write_tiny_model(tmp_path / "tiny")
    copy_folder(folder, tmp_path / "copy", 8)
    before, after = read_folder(folder), read_folder(tmp_path / "copy", "speech")
    assert before.model == after.model and before.notes == after.notes
    assert before.vocabularies == after.vocabularies
    with pytest.raises(UserError, match="one for translation is wanted"):
        read_folder(tmp_path / "copy", "translation")


def test_a_copy_takes_the_language_models_along_and_keeps_its_own(tmp_path):
    source, target = write_tiny_model(tmp_path / "tiny"), tmp_path / "copy"
    target.mkdir()
    (target / BOUNDARIES).write_text("old")
    (target / "words").mkdir(parents=True)
    (target / "words.npz").write_text("old")
    (target / "words" / "config.json").write_text("old")
    copy_folder(source, target, 16)
    assert (target / "words.npz").read_text() == (target / BOUNDARIES).read_text() == "old"
    (source / "words.npz").write_text("new")
    (source / BOUNDARIES).write_text("new")
    copy_folder(source, target, 16)
    assert (target / "words.npz").read_text() == (target / BOUNDARIES).read_text() == "new"
    assert not (target / "words").exists()  # would be a recurrent model of another source
    (source / "words").mkdir()
    (source / "words" / "config.json").write_text("new")
    for folder in (target, source):  # also onto itself
        copy_folder(source, folder, 8)
        assert (folder / "words.npz").read_text() == "new"
        assert (folder / "words" / "config.json").read_text() == "new"


def test_what_does_not_fit_is_refused(tmp_path):
    save(tmp_path, make(), 8)
    with pytest.raises(UserError, match="do not fit"):
        load_weights(nn.Linear(7, 6), tmp_path)
    with pytest.raises(UserError, match="wanted 32, 16, 8, 4 or 3"):
        save(tmp_path, make(), 2)
    (tmp_path / WEIGHTS).write_bytes(b"no weights")
    with pytest.raises(UserError, match="damaged"):
        load_weights(make(), tmp_path)
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(UserError, match="no weights"):
        load_weights(make(), tmp_path)


def test_a_copy_keeps_no_absolute_paths(tmp_path):
    folder = write_tiny_model(tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text())
    training = {"start_from": "/home/someone/runs/one", "cache": "teacher", "frozen": ["/a/b"]}
    config["notes"] = {"recipe": {"training": training}}
    (folder / "config.json").write_text(json.dumps(config))
    renew_checksum(folder / "config.json")
    copy_folder(folder, tmp_path / "copy", 16)
    kept = json.loads((tmp_path / "copy" / "config.json").read_text())["notes"]["recipe"]
    assert kept["training"] == {"start_from": "one", "cache": "teacher", "frozen": ["b"]}
