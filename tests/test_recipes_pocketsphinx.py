"""The word times of PocketSphinx are written for utterances that it aligns completely."""

import json
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import soundfile

from asr.corpora.word_times import Timed, read_word_times

SCRIPT = Path(__file__).parents[1] / "recipes" / "librispeech" / "pocketsphinx_times.py"
RATE = 16_000


class FakeDecoder:
    """An aligner that gives each word 20 frames after a pause of 10, and knows four words."""

    def __init__(self, samprate: int, loglevel: str) -> None:
        assert samprate == RATE
        self.config = {"frate": 100}

    def lookup_word(self, word: str) -> str | None:
        return "X" if word in ("a", "cat", "sat", "lost") else None

    def set_align_text(self, text: str) -> None:
        self.text = text

    def start_utt(self) -> None:
        pass

    def process_raw(self, data: bytes, full_utt: bool) -> None:
        loudest = np.abs(np.frombuffer(data, np.int16)).max()
        assert 16_000 < loudest < 16_700 and full_utt

    def end_utt(self) -> None:
        pass

    def seg(self) -> list[SimpleNamespace] | None:
        if "lost" in self.text:
            return None
        found = [SimpleNamespace(word="<sil>", start_frame=0, end_frame=9)]
        for at, word in enumerate(self.text.split()):
            start = 10 + 20 * at
            found.append(
                SimpleNamespace(word=f"{word}(2)", start_frame=start, end_frame=start + 19)
            )
        return found


def test_utterances_that_are_aligned_completely_are_written(tmp_path, monkeypatch, capsys):
    module = ModuleType("pocketsphinx")
    module.Decoder = FakeDecoder
    monkeypatch.setitem(sys.modules, "pocketsphinx", module)
    soundfile.write(tmp_path / "a.wav", np.full(RATE, 0.5), RATE)
    texts = {"known": "a cat sat", "unknown": "a dog sat", "lost": "a lost cat"}
    lines = [
        {"id": name, "audio": "a.wav", "text": text, "duration": 1.0}
        for name, text in texts.items()
    ]
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(each) + "\n" for each in lines))
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(manifest), str(tmp_path / "times.jsonl")])
    runpy.run_path(str(SCRIPT))["main"]()
    assert capsys.readouterr().out == "1 of 3 utterances aligned\n"
    assert read_word_times(tmp_path / "times.jsonl") == {
        "known": [Timed("a", 0.1, 0.3), Timed("cat", 0.3, 0.5), Timed("sat", 0.5, 0.7)]
    }
