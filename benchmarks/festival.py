"""Let Festival read texts, with the times at which it says each word.

    apt-get install festival festvox-kallpc16k
    python benchmarks/festival.py MANIFEST FOLDER [--ids FILE] [--every N]

Writes FOLDER/manifest.jsonl with the recordings and FOLDER/times.jsonl, which `word_times.py` and
`asr score-alignment` read. The voice is kal_diphone, which joins diphones: the times are those at
which its sounds were placed. A text that Festival divides into other words is reported and left
out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from asr.corpora.manifest import read_manifest, select
from asr.corpora.word_times import Timed
from asr.errors import UserError, exit_status

SPEAK = """(voice_kal_diphone)
(set! spoken (utt.synth (Utterance Text "{text}")))
(utt.save.wave spoken "{audio}" 'riff)
(mapcar
  (lambda (word)
    (format t "%s %f %f\\n" (item.name word) (item.feat word 'word_start)
      (item.feat word 'word_end)))
  (utt.relation.items spoken 'Word))
"""


def speak(text: str, audio: Path) -> list[Timed]:
    """Write a recording of a text (a to z, apostrophes) and return the times of its words.

    Raises:
        UserError: Festival failed.
    """
    script = SPEAK.format(text=text, audio=audio)
    done = subprocess.run(
        ["festival", "--pipe"], input=script, capture_output=True, text=True, check=False
    )
    if done.returncode or not audio.is_file():
        raise UserError(f"festival: {(done.stderr or done.stdout).strip()[-200:]}")
    return words_of(done.stdout.splitlines())


def words_of(lines: Iterable[str]) -> list[Timed]:
    """Read lines of word, start and end; an ending such as 's belongs to the word before it."""
    words: list[Timed] = []
    for line in lines:
        word, start, end = line.split()
        if word.startswith("'") and words:
            before = words.pop()
            words.append(Timed(before.word + word, before.start, float(end)))
        else:
            words.append(Timed(word, float(start), float(end)))
    return words


def main() -> None:
    """Read the arguments, and write recordings, manifest and times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("manifest", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ids", type=Path, metavar="FILE", help="use only these texts")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="use every N-th text")
    given = parser.parse_args()
    if shutil.which("festival") is None:
        raise UserError("festival is not installed: apt-get install festival festvox-kallpc16k")
    utterances = read_manifest(given.manifest)
    if given.ids is not None:
        utterances = select(utterances, given.ids)
    given.folder.mkdir(parents=True, exist_ok=True)
    entries, times = [], []
    for each in utterances[:: given.every]:
        audio = given.folder.absolute() / f"{each.id}.wav"
        words = speak(each.text, audio)
        if [word.word for word in words] != each.text.split():
            print(f"{each.id}: divided into other words, left out", file=sys.stderr)
            audio.unlink()
            continue
        entries.append({"id": each.id, "audio": audio.name, "text": each.text})
        times.append({"id": each.id, "words": words})
    for name, lines in (("manifest.jsonl", entries), ("times.jsonl", times)):
        (given.folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{len(entries)} recordings")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
