"""What a loaded model reads on first use, and which copies of it share that."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_model import write_tiny_model
from tiny_punctuator import use_punctuator, write_tiny_punctuator

from asr import model_folder
from asr.audio.read import read
from asr.checksums import renew_checksum
from asr.errors import UserError
from asr.inference import decoding
from asr.inference.recognizer import Recognizer
from asr.lazy import Lazy
from asr.lm.estimation import lexicon_of, train_word_ngrams
from asr.models.folder import LANGUAGE_MODEL, copy_folder
from asr.results import Segment
from asr.search.beam import beam_search
from asr.search.hypothesis import Hypothesis

FLAC = Path(__file__).parents[2] / "data" / "speech" / "5683-32866-0027.flac"


def write_words(file: Path) -> Path:
    sentences = [["a", "cold", "moon"], ["a", "cold", "light"]]
    train_word_ngrams(sentences, lexicon_of(sentences, 1)).save(file)
    return file


def edit_config(folder: Path, **changes: object) -> None:
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text("utf-8")) | changes), "utf-8")
    renew_checksum(config)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a speech model with a language model and one of punctuation and case."""
    monkeypatch.setattr(model_folder, "PRETRAINED", tmp_path / "package")
    write_tiny_punctuator(tmp_path / "package" / "writer")
    model = use_punctuator(write_tiny_model(tmp_path / "package" / "model"), "writer")
    write_words(model / LANGUAGE_MODEL)
    return model


def test_copies_share_the_language_model_and_the_punctuator(folder: Path, tmp_path: Path) -> None:
    recognizer = Recognizer.load(folder)
    copies = {
        "plain": recognizer.plain(),
        "digits": recognizer.with_digits(),
        "beam": recognizer.configured(beam=3),
        "hot words": recognizer.configured(hotwords=["anna"]),
        "window": recognizer.configured(window=(1.0, 1.0)),
        "cache": recognizer.caching(60.0),
        "same file": recognizer.configured(language_model=folder / LANGUAGE_MODEL),
    }
    first = copies["plain"].loaded.language_model  # read by a copy: the others have it too
    assert first is not None and recognizer.loaded.language_model is first
    for name, each in copies.items():
        assert each.loaded.language_model is first, name
    writer = copies["cache"].loaded.punctuator
    assert writer is not None and copies["plain"].loaded.punctuator is None
    for name in set(copies) - {"plain"}:
        assert copies[name].loaded.punctuator is writer, name
    other = recognizer.configured(language_model=write_words(tmp_path / "other.npz"))
    assert other.loaded.language_model is not first
    assert other.plain().loaded.language_model is other.loaded.language_model


def test_threads_make_a_lazy_value_once_and_a_failure_is_not_kept() -> None:
    begun, made = threading.Barrier(4), []

    def make() -> object:
        made.append(threading.get_ident())
        threading.Event().wait(0.05)
        if len(made) == 1:
            raise UserError("not yet")
        return object()

    value, found = Lazy(make), []

    def use() -> None:
        begun.wait()
        found.append(value())

    with pytest.raises(UserError):
        value()
    threads = [threading.Thread(target=use) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 2 and len(found) == 4 and len(set(map(id, found))) == 1


def test_names_in_a_config_are_not_looked_for_in_the_current_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_folder(folder, tmp_path / "user", bits=16, language_model="model")
    (tmp_path / "here" / "model").mkdir(parents=True)
    (tmp_path / "here" / "writer").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    loaded = Recognizer.load(tmp_path / "user").loaded
    assert loaded.language_model_file == folder / LANGUAGE_MODEL
    assert loaded.language_model is not None and loaded.punctuator is not None


def test_a_named_language_model_that_is_missing_is_reported(folder: Path, tmp_path: Path) -> None:
    edit_config(folder, language_model="nobody")
    with pytest.raises(UserError, match=r"names a language model that is missing: .*nobody"):
        Recognizer.load(folder)


def test_calibrations_do_not_hold_for_another_language_model_or_window(
    folder: Path, tmp_path: Path
) -> None:
    edit_config(folder, confidence={"bias": 0.5, "word": 0.25, "score": 2.0})
    recognizer = Recognizer.load(folder)
    kept = recognizer.configured(
        language_model=folder / LANGUAGE_MODEL, hotwords=["anna"], window=(0.0, 0.0)
    )
    assert kept.caching(60.0).plain().loaded.calibration is not None
    file = write_words(tmp_path / "other.npz")
    for other in (
        recognizer.configured(language_model=file),
        recognizer.configured(window=(1.0, 1.0)),
    ):
        assert other.loaded.calibration is None and other.loaded.plausibility is None


def test_a_text_of_the_second_search_has_no_alternatives_of_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def best_and_alternatives() -> Segment:
        (segment,) = recognizer.transcribe(read(FLAC).samples[8000:32000], rate=16000).segments
        return segment

    recognizer = Recognizer.load(folder).plain().configured(beam=4, n_best=3, lm_weight=0.0)
    monkeypatch.setattr(decoding, "is_without_sound", lambda *_: False)
    assert len(best_and_alternatives().alternatives) == 3
    answers = iter([True, False])  # the first search failed, the second one did not
    monkeypatch.setattr(decoding, "is_without_sound", lambda *_: next(answers))
    segment = best_and_alternatives()
    assert len(segment.alternatives) == 1 and segment.alternatives[0].score == segment.score


def test_alternatives_are_different_texts_the_first_that_of_the_segment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recognizer = Recognizer.load(folder).plain().configured(beam=4, n_best=4, lm_weight=0.0)
    (space,) = recognizer.loaded.vocabulary.encode(" ")

    def before_a_loop_was_cut_off(found: Hypothesis) -> Hypothesis:
        """Return the same text with a space at its end."""
        return found._replace(
            tokens=[*found.tokens, space],
            weights=np.concatenate([found.weights[:1], found.weights]),
            token_log_probabilities=[-0.1, *found.token_log_probabilities],
        )

    def search(*arguments: Any) -> list[list[Hypothesis]]:
        found = beam_search(*arguments)
        return [[before_a_loop_was_cut_off(its[0]), *its] for its in found]

    monkeypatch.setattr(decoding, "beam_search", search)
    (segment,) = recognizer.transcribe(read(FLAC).samples[8000:32000], rate=16000).segments
    texts = [each.text for each in segment.alternatives]
    assert texts[0] == segment.text and len(set(texts)) == len(texts) == 4
