"""The benchmarks: their jobs, their tables for given figures, and peers that are not installed."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import asr
from asr.corpora.manifest import Utterance
from asr.corpora.word_times import Timed
from asr.errors import UserError
from asr.results import Span
from asr.training.config import load_config

ROOT = Path(__file__).parents[1]
SHINING = "a cold bright moon was shining with clear sharp lights and shadows"
PAIRS = [("go home .", "va chez toi ."), ("i lost .", "j'ai perdu ."), ("go !", "va !")]
CONFIG = """
task = "translation"
[data]
train = "train.txt"
dev = "train.txt"
[model.encoder]
embedding_size = 6
state_size = 6
cell = "gru"
[model.attention]
size = 6
[model.decoder]
embedding_size = 6
state_size = 6
readout_size = 6
[batches]
size = 12.0
"""


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")  # as if it were run
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def translators(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("translators", monkeypatch)


@pytest.fixture
def contestants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("contestants", monkeypatch)


@pytest.fixture
def recognisers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("recognisers", monkeypatch)


@pytest.fixture
def word_times(monkeypatch: pytest.MonkeyPatch, recognisers: ModuleType) -> ModuleType:
    return load("word_times", monkeypatch)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return a command line with data of three pairs, each several times."""
    lines = [f"{source}\t{target}\n" for source, target in PAIRS * 4]
    (tmp_path / "train.txt").write_text("".join(lines), "utf-8")
    (tmp_path / "test.txt").write_text("".join(f"{each}\n" for each, _ in PAIRS), "utf-8")
    (tmp_path / "tiny.toml").write_text(CONFIG, "utf-8")
    given = [str(tmp_path / "tiny.toml"), "--data", str(tmp_path), "--test", "test.txt"]
    return [*given, "--steps", "2", "--warm-up", "1", "--batch", "2", "--threads", "1"]


def call(module: Any, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", *words])
    module.main()


def test_all_translate_the_same_sentences_short_beside_short(
    translators: Any, words: list[str]
) -> None:
    job = translators.plan(translators.arguments([*words, "--sentences", "3"]))
    assert [[len(each) for each in batch] for batch in job.questions] == [[2, 3], [3]]
    assert len(job.training) == 3 and job.warm_up == 1 and job.beam == 5
    lengths = {(len(source), len(target)) for batch in job.training for source, target in batch}
    assert lengths <= {(3, 4), (3, 3), (2, 2)}
    assert translators.Job(*json.loads(json.dumps(job))) == job


def test_the_peer_gets_the_sizes_and_dropouts_of_the_recipe(contestants: Any) -> None:
    config = load_config(ROOT / "recipes" / "multi30k" / "en-de.toml")
    peer = contestants.peer_settings(config)
    model = peer["model"]
    for half, own in (("encoder", config.model.encoder), ("decoder", config.model.decoder)):
        assert model[half]["hidden_size"] == own.state_size == 256
        assert model[half]["embeddings"] == {
            "embedding_dim": own.embedding_size,
            "dropout": own.embedding_dropout,
        }
        assert model[half]["rnn_type"] == "gru"
    assert model["decoder"]["hidden_dropout"] == config.model.decoder.readout_dropout
    assert model["tied_embeddings"] and model["tied_softmax"]
    assert peer["label_smoothing"] == config.loss.label_smoothing
    assert peer["clip"]["clip_grad_norm"] == config.training.clip


def test_ids_of_the_peer_leave_room_for_its_own(contestants: Any) -> None:
    assert contestants._shifted([0, 7]) == [4, 11]
    assert contestants._padded([[5], [6, 7]]) == [[5, contestants.PADDING], [6, 7]]


@pytest.mark.parametrize("name", ["asr, bf16", "asr, float32"])
def test_ours_trains_on_every_token_and_decodes_to_the_end(
    translators: Any, words: list[str], name: str
) -> None:
    job = translators.plan(translators.arguments(words))
    job = job._replace(name=name, threads=torch.get_num_threads())
    found = translators.measure(job)
    timed = [target for batch in job.training[1:] for _, target in batch]
    assert found.training.amount == sum(len(each) + 1 for each in timed)
    assert found.greedy.amount == found.beam.amount == len(PAIRS)
    assert min(found.training.seconds, found.greedy.seconds, found.beam.seconds) > 0
    assert found.parameters > 0


def test_decoding_does_the_work_that_was_asked_for(
    translators: Any, contestants: Any, words: list[str]
) -> None:
    job = translators.plan(translators.arguments(words))
    ours = contestants._ours(job, "fp32")
    ours.step(ours.batches[0])
    state = torch.random.get_rng_state()
    for beam in (1, 4):
        assert ours.decode(job.questions[0], beam, 60) == [60, 60]  # although it loops or would end
    assert torch.equal(state, torch.random.get_rng_state())  # no random draws, unlike training
    ours.step(ours.batches[1])
    assert not torch.equal(state, torch.random.get_rng_state())


def test_rates_are_amounts_by_seconds(translators: Any) -> None:
    found = translators.Found(
        3_650_696,
        translators.Speed(90_000, 20.0, 10.0),
        translators.Speed(500, 5.0, 4.0),
        translators.Speed(500, 40.0, 25.0),
    )
    line = translators.row("asr, bf16", 2, found)
    assert line == "| asr, bf16 | 2 | 3,650,696 | 4,500 | 9,000 | 100 | 125 | 12.5 | 20.0 |"
    assert line.count("|") == len(translators.HEADER) + 1


def test_a_missing_translator_is_told_in_one_line(
    translators: Any,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    speed = translators.Speed(100, 1.0, 1.0)
    jobs = []

    def apart(job: Any, python: str) -> Any:
        jobs.append((job.name, job.threads, python))
        return translators.Found(10, speed, speed, speed)

    monkeypatch.setattr(translators, "run_apart", apart)
    call(translators, [*words, "--peer", "nowhere/python"], monkeypatch)
    out, err = capsys.readouterr()
    told = [line for line in err.splitlines() if "left out" in line]
    assert told == ["JoeyNMT, float32: not installed in nowhere/python, left out"]
    assert jobs == [(name, 1, sys.executable) for name in ("asr, bf16", "asr, float32")]
    assert out.splitlines()[0] == "2 steps, 3 sentences, beam 5"
    assert out.count("| 10 | 100 |") == 2


def test_a_process_apart_brings_back_what_it_found(
    translators: Any, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = translators.Found(10, *[translators.Speed(1, 2.0, 3.0)] * 3)
    job = translators.plan(translators.arguments(words))._replace(name="asr, bf16", threads=2)

    def run(command: list[str], env: dict[str, str], check: bool) -> None:
        assert command[0] == "python" and env["OMP_NUM_THREADS"] == "2" and check
        monkeypatch.setattr(translators, "measure", lambda given: found if given == job else None)
        call(translators, command[2:], monkeypatch)

    monkeypatch.setattr(translators.subprocess, "run", run)
    assert translators.run_apart(job, "python") == found


@pytest.mark.parametrize(
    ("change", "message"),
    [(["--steps", "50"], "lower --steps"), (["--test", "no.txt"], r"no\.txt")],
)
def test_what_cannot_be_measured_is_one_line(
    translators: Any,
    words: list[str],
    change: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SystemExit, match=message):
        call(translators, [*words, *change], monkeypatch)


@pytest.mark.parametrize("module", ["translators", "recognisers"])
def test_unknown_names_are_refused(
    module: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as stopped:
        given = ["x", "--data", "."] if module == "translators" else ["x"]
        call(request.getfixturevalue(module), [*given, "--only", "Nobody"], monkeypatch)
    assert stopped.value.code == 2


def test_a_recogniser_is_scored_by_the_words_of_all(recognisers: Any) -> None:
    recognisers.RECOGNISERS["toy"] = recognisers.Recogniser(lambda: None, "asr", "3")
    found = {
        "texts": ["Go home!", "i los"],
        "cpu_seconds": 36.0,
        "memory_mib": 99.6,
        "size_mb": 2.0,
    }
    texts = ["go home", "i lost"]
    utterances = [Utterance(text, Path(text), text, 1.0, gender="F") for text in texts]
    summary = recognisers._summary(utterances, found["texts"])
    line = recognisers._row("toy", summary, found, hours=0.1)
    assert line == "| toy | 25.0 (0.0–50.0) |  | 7.7 | 0.100 | 100 | 2 | 3 |"


def test_recognisers_are_compared_by_group_and_on_the_worst_speakers(recognisers: Any) -> None:
    speakers = [("a", "F", "Scotland"), ("b", "M", "Scotland"), ("c", "M", ""), ("d", "F", "")]
    utterances = [
        Utterance(name, Path(name), "go home", 1.0, name, gender, accent=accent or None)
        for name, gender, accent in speakers
    ]
    one = recognisers._summary(utterances, ["go", "go home", "go home", "go home"])
    two = recognisers._summary(utterances, ["go home", "", "go home", "go home"])
    assert recognisers._by_group({"one": one, "two": two}, 1).splitlines()[2:] == [
        "| F | 2 | 25.0 | 0.0 |",
        "| M | 2 | 0.0 | 50.0 |",
        "| Scotland | 2 | 25.0 | 50.0 |",
    ]
    assert len(recognisers._by_group({"one": one, "two": two}, 3).splitlines()) == 2
    assert one.worst_quarter.words.rate == 0.5 and two.worst_quarter.words.rate == 1.0


def test_a_recogniser_hears_every_recording(recognisers: Any, tmp_path: Path) -> None:
    import soundfile

    heard: list[int] = []

    def transcribe(samples: np.ndarray[Any, Any]) -> str:
        heard.append(len(samples))
        return f"{len(samples)} samples"

    weights = tmp_path / "weights"
    weights.write_bytes(bytes(2_000))
    recognisers.RECOGNISERS["toy"] = recognisers.Recogniser(
        lambda: (transcribe, [weights]), "asr", "0"
    )
    audio = [str(tmp_path / f"{length}.wav") for length in (100, 200)]
    for path, length in zip(audio, (100, 200), strict=True):
        soundfile.write(path, np.zeros(length), recognisers.RATE)
    found = recognisers._run("toy", audio)
    assert found["texts"] == ["100 samples", "200 samples"]
    assert heard == [100, 100, 200]  # the first once more, as a warm-up
    assert found["size_mb"] == pytest.approx(0.002) and found["memory_mib"] > 1


def test_a_missing_recogniser_is_told_in_one_line(
    recognisers: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    utterance = Utterance("a", tmp_path / "a.wav", "go", 36.0)
    monkeypatch.setattr("asr.corpora.manifest.read_manifest", lambda path: [utterance] * 3)
    recognisers.RECOGNISERS["toy"] = recognisers.Recogniser(lambda: None, "no_such_package", "0")
    call(recognisers, ["manifest", "--only", "toy", "--every", "2"], monkeypatch)
    out, err = capsys.readouterr()
    assert err == "toy: not installed, left out\n"
    assert out.startswith("\n2 utterances, 0.02 h\n") and "WER %" in out
    monkeypatch.undo()
    monkeypatch.setattr(sys, "argv", ["benchmark", str(tmp_path / "none.jsonl")])
    with pytest.raises(UserError, match=r"none\.jsonl"):
        recognisers.main()


def test_words_are_late_or_early_where_they_were_written_as_said(word_times: Any) -> None:
    times = {0: Timed("go", 1.0, 1.5), 2: Timed("now", 2.0, 3.0)}
    heard = [
        Span("Go", 1.1, 1.4),
        Span("to", 1.5, 1.6),
        Span(",", 1.6, 1.6),
        Span("Now!", 2.0, 3.2),
    ]
    assert np.allclose(word_times.errors("go home now", times, heard), [(0.1, -0.1), (0.0, 0.2)])
    assert word_times.errors("go home now", times, [Span("no", 1.0, 2.0)]) == []
    assert word_times.errors("go home now", times, []) == word_times.errors("", {}, heard) == []
    late = [Span("oh", 0.0, 0.5), Span("go", 1.2, 1.5)]
    assert np.allclose(word_times.errors("go home now", times, late), [(0.2, 0.0)])


def test_word_times_are_summed_up_in_milliseconds(word_times: Any) -> None:
    found = [(0.008, -0.02), (-0.03, 0.09), (0.04, 0.2)]
    line = word_times.row("toy", found, wanted=4)
    assert line == "| toy | 75 | 65 | 35 | +6 | +90 | 17 | 33 | 67 | 83 | – | – |"
    nothing = word_times.row("toy", [], wanted=4)
    assert nothing.count("|") == line.count("|") == 13
    line = word_times.row("toy", found, wanted=4, given=6)  # one word is within 50 ms, three 200
    assert line.endswith("| 83 | 20 | 60 |")


def test_word_times_of_ours_are_measured(
    word_times: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recording = "5683-32866-0027"
    manifest = ROOT / "data" / "speech" / "manifest.jsonl"
    aligned = asr.load().align(manifest.parent / f"{recording}.flac", SHINING)
    words = [[each.text, each.start + 0.04, each.end + 0.04] for each in aligned.words]
    times = tmp_path / "times.jsonl"
    times.write_text(json.dumps({"id": recording, "words": words}), "utf-8")
    given = [str(manifest), str(times)]
    call(word_times, [*given, "--model", "english"], monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 utterances, 12 words"
    moved = "| 100 | 40 | 40 | -40 | -40 | 0 | 0 | 100 | 100 | 100 | 100 |"
    assert lines[-2:] == [f"| english, given the text {moved}", f"| english {moved}"]
    call(word_times, [*given, "--only", "english, given the text"], monkeypatch)
    assert capsys.readouterr().out.splitlines() == lines[:-1]
    with pytest.raises(SystemExit, match="2"):
        call(word_times, [*given, "--model", "english", "--only", "PocketSphinx"], monkeypatch)


@pytest.fixture
def training_step(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("training_step", monkeypatch)


def test_the_training_step_of_each_case_gives_every_weight_a_gradient(
    training_step: ModuleType,
) -> None:
    sizes = training_step.Sizes(annotation=6, state=4, attention=3)
    batch = training_step.make_batch(sizes, share=20)
    for case in training_step.CASES.values():
        model = training_step.Ours(sizes, case)
        training_step.train_step(model, batch)
        assert all(each.grad is not None and each.grad.any() for each in model.parameters())
        assert batch.values.grad.any()


def test_the_table_of_training_steps_says_what_was_not_measured(
    training_step: ModuleType,
) -> None:
    alone = training_step.Figures("small", "content", 1.05, 65.0, None, None, None)
    both = training_step.Figures("mid", "window", 0.5, 64.0, 2.0, 1280.0, 4.04)
    lines = training_step.table([alone, both]).splitlines()
    assert lines[2] == "| small | content | 1.05 (65) | not measured |  |  |"
    assert lines[3] == "| mid | window | 0.50 (64) | 2.00 (1280) | 4.0× | 20× |"
