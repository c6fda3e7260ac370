"""A resumed run is compared with the data that it was begun with, also that of earlier versions."""

import json

from test_run import CONFIG
from tones import write_tones

from asr.training.config import load_config
from asr.training.fingerprint import Fingerprint, fingerprint


def test_a_list_with_the_name_of_a_manifest_does_not_hide_it(tmp_path):
    data = write_tones(tmp_path / "data", utterances=4)
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "dev.jsonl").write_text("dev-0000\n")
    config = load_config(CONFIG, ["data.dev_ids=dev.jsonl"])
    before = fingerprint(config, data, lists)
    assert not before.differences(fingerprint(config, data, lists))
    lines = (data / "dev.jsonl").read_text().splitlines()
    changed = json.loads(lines[0]) | {"text": "another"}
    (data / "dev.jsonl").write_text("\n".join([json.dumps(changed), *lines[1:]]))
    now = fingerprint(config, data, lists)
    assert before.differences(now) == ["data.dev = dev.jsonl has another content"]


def test_another_text_is_another_run(tmp_path):
    data = write_tones(tmp_path / "data", utterances=4)
    (data / "text.txt").write_text("one text")
    config = load_config(CONFIG, ['text.files=["text.txt"]'])
    before = fingerprint(config, data, CONFIG.parent)
    (data / "text.txt").write_text("another text")
    now = fingerprint(config, data, CONFIG.parent)
    assert before.differences(now) == ["text.files[0] = text.txt has another content"]


def test_runs_of_earlier_versions_resume(tmp_path):
    data = write_tones(tmp_path, utterances=4)
    now = fingerprint(load_config(CONFIG), data, tmp_path)
    assert [*now.data] == ["data.train[0].manifest = train.jsonl", "data.dev = dev.jsonl"]
    earlier = {name.partition(" = ")[2]: digest for name, digest in now.data.items()}
    assert not Fingerprint(now.config, earlier).differences(now)
    other = {**earlier, "dev.jsonl": "0"}
    found = Fingerprint(now.config, other).differences(now)
    assert found == ["dev.jsonl has another content"]
