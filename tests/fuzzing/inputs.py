"""Whole, tiny inputs of every kind, and the commands that read them."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from tiny_model import write_tiny_model
from tiny_translator import write_tiny_translator
from tones import write_tones

from asr.audio.read import read
from asr.cli import main
from asr.corpora.shards import write_shards
from asr.lm.estimation import lexicon_of, train_word_ngrams
from asr.model_folder import BOUNDARIES, NETWORKS, VOICE_ACTIVITY
from asr.models.boundary import BoundaryModel
from asr.models.folder import save_folder
from asr.models.language import build_language_model
from asr.models.settings import LanguageSettings
from asr.models.translation import build_translation_model
from asr.models.voice_activity import VoiceActivityModel
from asr.runtime.voice_activity import FEATURES
from asr.tables import from_table, to_table
from asr.text.vocabulary import SPECIALS, Vocabulary
from fuzzing.configs import LANGUAGE_CONFIG, PAIR_CONFIG, SPEECH_CONFIG

SPEECH = Path(__file__).parents[2] / "data" / "speech"
TEXTS = ["the cat sat on the mat", "a cat and a cart", "the car sat", "on the mat the cat sat"]

STEPS = ["--set", "training.steps=1", "--set", "training.validate_every=1"]
SUBTITLES = """1
00:00:01,000 --> 00:00:02,500
go .

2
00:00:03,000 --> 00:00:04,000
i lost .
"""


class Case(NamedTuple):
    """A command on a folder of inputs, one file of which is damaged.

    folder: of the inputs; the command gets a copy, whose path replaces `{}` in the arguments.
    """

    name: str
    folder: Path
    target: str
    arguments: list[str]


def write_inputs(root: Path, training: bool = True) -> list[Case]:
    """Write all inputs into a folder, and return the cases, those that train last."""
    cases = [*_speech(root / "speech"), *_translation(root / "translation")]
    cases += [*_texts(root / "texts"), *_corpora(root / "corpora")]
    return cases + _training(root) if training else cases


def require_whole(cases: list[Case], work: Path) -> None:
    """Refuse cases whose command fails on whole inputs: damages to them would say nothing."""
    for case in {(each.folder, *each.arguments): each for each in cases}.values():
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(case.folder, work)
        _quietly(lambda case=case: main([each.replace("{}", str(work)) for each in case.arguments]))


def is_training(case: Case) -> bool:
    """Return whether a case trains, which takes a second or more."""
    return case.arguments[0] == "train"


def _speech(folder: Path) -> list[Case]:
    model = write_speech_model(folder / "model")
    clip = read(SPEECH / "5683-32866-0027.flac").samples[8000:24000]
    write_wave(folder / "clip.wav", clip)
    lines = [{"audio": "clip.wav", "text": "the cat", "id": str(at)} for at in range(2)]
    (folder / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    (folder / "ids.txt").write_text("# ids\n1\n0\n", "utf-8")
    transcribe = ["transcribe", "{}/clip.wav", "-m", "{}/model", "-f", "jsonl"]
    with_lm = [*transcribe, "--beam", "2", "--lm-weight", "0.5"]
    evaluate = ["evaluate", "{}/manifest.jsonl", "-m", "{}/model", "--beam", "1"]
    align = ["align", "{}/clip.wav", "-m", "{}/model", "--text", "the cat", "--beam", "1"]
    files = sorted(each.relative_to(folder) for each in model.rglob("*") if each.is_file())
    files = [each for each in files if each.name != "checksums.json"]
    cases = [Case(f"model {each}", folder, str(each), with_lm) for each in files]
    by_torch = [*transcribe, "--beam", "1", "--runtime", "torch"]
    for name in ("config.json", "model.safetensors", *NETWORKS):
        cases.append(Case(f"model {name} by torch", folder, f"model/{name}", by_torch))
    return [
        *cases,
        Case("model sums", folder, "model/checksums.json", transcribe),
        Case("align model", folder, "model/config.json", align),
        Case("align audio", folder, "clip.wav", align),
        Case("transcribe audio", folder, "clip.wav", [*transcribe, "--beam", "1"]),
        Case("evaluate manifest", folder, "manifest.jsonl", evaluate),
        Case("evaluate ids", folder, "ids.txt", [*evaluate, "--ids", "{}/ids.txt"]),
        Case(
            "language model option",
            folder,
            "model/words.npz",
            [*with_lm, "--language-model", "{}/model/words.npz"],
        ),
    ]


def _translation(folder: Path) -> list[Case]:
    write_tiny_translator(folder / "words")
    _write_subword_translator(folder / "subwords")
    (folder / "pairs.tsv").write_text("go .\tva !\ni lost .\tj'ai perdu .\n", "utf-8")
    (folder / "lines.txt").write_text("go .\ni lost .\n", "utf-8")
    (folder / "cues.srt").write_text(SUBTITLES, "utf-8")
    (folder / "cues.vtt").write_text("WEBVTT\n\n" + SUBTITLES.replace(",", "."), "utf-8")
    cases = []
    for model in ("words", "subwords"):
        call = ["translate", "go .", "-m", f"{{}}/{model}", "-f", "jsonl"]
        for name in ("config.json", "source.json", "target.json", "model.safetensors"):
            cases.append(Case(f"translate {model} {name}", folder, f"{model}/{name}", call))
    by_torch = ["translate", "go .", "-m", "{}/words", "--runtime", "torch"]
    evaluate = ["evaluate", "{}/pairs.tsv", "-m", "{}/words"]
    return [
        *cases,
        Case("translate by torch", folder, "words/config.json", by_torch),
        Case("evaluate pairs", folder, "pairs.tsv", evaluate),
        *(
            Case(f"translate {name}", folder, name, ["translate", "--file", f"{{}}/{name}", *more])
            for name in ("lines.txt", "cues.srt", "cues.vtt")
            for more in [["-m", "{}/words", "--beam", "1"]]
        ),
    ]


def _texts(folder: Path) -> list[Case]:
    folder.mkdir(parents=True)
    lines = [{"id": str(at), "text": text} for at, text in enumerate(TEXTS)]
    for name in ("reference", "hypothesis"):
        (folder / f"{name}.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return [
        Case(
            f"score {side}{ending}",
            folder,
            f"{side}{ending}",
            ["score", f"{{}}/reference{ending}", f"{{}}/hypothesis{ending}", "--normalize"],
        )
        for ending in (".txt", ".jsonl")
        for side in ("reference", "hypothesis")
    ]


def _corpora(folder: Path) -> list[Case]:
    own = folder / "own"
    own.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        write_wave(own / f"{name}.wav", 0.1 * rng.standard_normal(16000))
        (own / f"{name}.txt").write_text("good morning\n", "utf-8")
    book = folder / "LibriSpeech" / "dev-clean" / "1" / "2"
    book.mkdir(parents=True)
    for at in range(2):
        write_wave(book / f"1-2-000{at}.wav", rng.standard_normal(8000) / 10)
        (book / f"1-2-000{at}.wav").rename(book / f"1-2-000{at}.flac")
    (book / "1-2.trans.txt").write_text("1-2-0000 GOOD MORNING\n1-2-0001 GOOD\n", "utf-8")
    segment = {"start": 0.0, "end": 1.0, "text": "good morning", "log_probability": -2.0}
    segment["stop_reason"] = "eos"
    lines = [
        {"path": str(own / f"{name}.wav"), "text": "good morning", "segments": [segment]}
        for name in ("one", "two")
    ]
    (folder / "transcripts.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    manifest = [{"audio": f"own/{each}.wav", "text": "good morning"} for each in ("one", "two")]
    (folder / "manifest.jsonl").write_text("\n".join(map(json.dumps, manifest)), "utf-8")
    prepare = ["prepare", "folder", "{}/own", "{}/out.jsonl"]
    labels = ["prepare", "pseudo-labels", "{}/transcripts.jsonl", "{}/corpus"]
    libri = ["prepare", "librispeech", "{}", "{}/out"]
    check = ["prepare", "check", "{}/manifest.jsonl"]
    write_shards(folder / "manifest.jsonl", folder / "shards", 1)
    sharded = ["prepare", "check", "{}/shards/manifest.jsonl"]
    return [
        Case("shard", folder, "shards/000000.tar", sharded),
        Case("shard index", folder, "shards/000000.tar.index.json", sharded),
        Case(
            "webdataset",
            folder,
            "shards/000000.tar",
            ["prepare", "webdataset", "{}/shards", "{}/out.jsonl"],
        ),
        Case("prepare text", folder, "own/one.txt", prepare),
        Case("prepare audio", folder, "own/two.wav", prepare),
        Case("pseudo-labels", folder, "transcripts.jsonl", labels),
        Case("librispeech", folder, "LibriSpeech/dev-clean/1/2/1-2.trans.txt", libri),
        Case("check manifest", folder, "manifest.jsonl", check),
        Case("check audio", folder, "own/one.wav", check),
    ]


def _training(root: Path) -> list[Case]:
    train = ["train", "{}/recipe.toml", "{}/run", *STEPS]
    cases = []
    for name, config in (
        ("tones", SPEECH_CONFIG),
        ("pairs", PAIR_CONFIG),
        ("language", LANGUAGE_CONFIG),
    ):
        folder = root / name
        write_data(folder / "data")
        (folder / "recipe.toml").write_text(config, "utf-8")
        _quietly(lambda f=folder: main([each.format(f) for each in train]))
        resumed = [*train, "--set", "training.steps=2"]
        new = ["train", "{}/recipe.toml", "{}/new", *STEPS]
        newest = "run/checkpoints/step-00000001.pt"
        cases += [
            Case(f"train {name} config", folder, "recipe.toml", new),
            Case(f"train {name} config again", folder, "recipe.toml", new),
            Case(f"resume {name} checkpoint", folder, newest, resumed),
            Case(f"resume {name} metrics", folder, "run/metrics.jsonl", resumed),
        ]
    tones = root / "tones"
    write_tiny_model(tones / "start")
    new = ["train", "{}/recipe.toml", "{}/new", *STEPS]
    taught = [*new, "--set", "teacher.model={}/start", "--set", "teacher.cache={}/cache"]
    taught += ["--set", "teacher.share=0.5", "--set", "model.ctc.subframes=2"]
    taught += ["--set", "model.encoder.layers_before_reduction=0"]
    _quietly(lambda: main([each.format(tones) for each in taught]))
    shutil.rmtree(tones / "new")
    kept = sorted(each.relative_to(tones) for each in (tones / "cache").rglob("*.npy"))
    best = "run/models/step-00000001/model.safetensors"
    resumed = [*train, "--set", "training.steps=2", "--set", "training.keep=2"]
    return [
        *cases,
        Case("resume best model", tones, best, resumed),
        Case("train manifest", tones, "data/train.jsonl", new),
        Case("train audio", tones, "data/train/0001.flac", new),
        Case("train pairs", root / "pairs", "data/pairs.tsv", new),
        Case("train texts", root / "language", "data/texts.txt", new),
        Case("teacher", tones, "start/model.safetensors", taught),
        Case("teacher config", tones, "start/config.json", taught),
        *(Case("teacher cache", tones, str(each), taught) for each in kept[:1]),
    ]


def write_data(folder: Path) -> Path:
    """Write manifests of a few tones, sentence pairs and texts."""
    write_tones(folder, utterances=6)
    dev = (folder / "dev.jsonl").read_text("utf-8").splitlines()[:2]
    (folder / "dev.jsonl").write_text("\n".join(dev) + "\n", "utf-8")
    pairs = [f"word{at} go .\tmot{at} va !" for at in range(24)]
    (folder / "pairs.tsv").write_text("\n".join([*pairs, "go .\tva !"]), "utf-8")
    (folder / "texts.txt").write_text("\n".join(TEXTS), "utf-8")
    return folder


def write_speech_model(folder: Path) -> Path:
    """Write a random speech model with both language models and a boundary model."""
    write_tiny_model(folder)
    sentences = [text.split() for text in TEXTS]
    train_word_ngrams(sentences, lexicon_of(sentences, 2), 3, 12).save(folder / "words.npz")
    settings = LanguageSettings(5, 6, 4, (6,), 0.0)
    vocabulary = Vocabulary((*SPECIALS, *sorted({w for s in sentences for w in s})), None, True)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = build_language_model(settings, len(vocabulary))
        boundary = BoundaryModel(80, len(Vocabulary.characters()))
        activity = VoiceActivityModel(FEATURES)
    save_folder(
        folder / "words",
        "language",
        to_table(settings),
        {"words": vocabulary.to_json()},
        network.state_dict(),
        {},
    )
    save_file(boundary.state_dict(), folder / BOUNDARIES)
    save_file(activity.state_dict(), folder / VOICE_ACTIVITY)
    return folder


def _write_subword_translator(folder: Path) -> None:
    import sentencepiece

    from asr.models.settings import TranslationSettings

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5), model_writer=written, vocab_size=20, minloglevel=2
    )
    vocabulary = Vocabulary.subwords(written.getvalue())
    sizes = {"embedding_size": 8, "state_size": 8}
    table = {
        "encoder": sizes,
        "attention": {"size": 8},
        "decoder": {**sizes, "readout_size": 8},
    }
    settings = from_table(TranslationSettings, table)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        model = build_translation_model(settings, len(vocabulary), len(vocabulary))
    both = {"source": vocabulary.to_json(), "target": vocabulary.to_json()}
    save_folder(folder, "translation", to_table(settings), both, model.state_dict(), {})


def write_wave(path: Path, samples: np.ndarray) -> None:
    """Write samples at 16 kHz."""
    import soundfile

    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, 16_000)


def _quietly(command: Callable[[], int]) -> None:
    import contextlib

    sink = io.StringIO()
    with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
        status = command()
    assert status == 0, sink.getvalue()
