"""english-small, the packaged model in 3 bits."""

import subprocess
import sys
from pathlib import Path

import pytest

import asr
from asr.corpora import read_manifest
from asr.inference.recognizer import SHIPPED
from asr.model_folder import LANGUAGE_MODEL, PRETRAINED
from asr.scoring.words import ErrorCounts, count_characters

SMALL = PRETRAINED / "english-small"
SPEECH = Path(__file__).parents[1] / "data" / "speech"
MOST_BYTES = 5_000_000
MOST_MEMORY = 100_000  # kB of a process that transcribes a clip greedily; 93,000 measured
HIGHEST_CER = 0.3  # twice the measured one
PEAK = """
import asr
asr.load("english-small").configured(beam=1).transcribe({clip!r})
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def test_the_folder_is_small_and_its_card_says_how_it_was_made() -> None:
    assert (SMALL / "model.safetensors").stat().st_size <= MOST_BYTES
    card = (SMALL / "README.md").read_text()
    for word in ("3 bits", "WER", "Common Voice", "asr train", "asr shrink", "Apache-2.0"):
        assert word in card


def test_it_makes_few_errors_without_language_models() -> None:
    utterances = read_manifest(SPEECH / "manifest.jsonl")
    recognizer = asr.load("english-small").configured(beam=1)
    errors = ErrorCounts()
    for utterance in utterances:
        errors += count_characters(utterance.text, recognizer.transcribe(utterance.audio).text)
    assert errors.rate < HIGHEST_CER


def test_it_uses_the_other_models_of_english() -> None:
    loaded = asr.load("english-small").loaded
    assert loaded.language_model_file == SHIPPED / LANGUAGE_MODEL
    assert loaded.boundaries is not None and loaded.voice_activity is not None
    assert loaded.calibration is not None and loaded.plausibility is not None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_clip_needs_little_memory() -> None:
    code = PEAK.format(clip=str(SPEECH / "5683-32866-0027.flac"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 30_000 < int(done.stdout) <= MOST_MEMORY
