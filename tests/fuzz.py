"""Give damaged files of every kind to every command, and count what is not one clear line.

    python tests/fuzz.py --count 2000 --seed 1

Prints the number of tracebacks, crashes, hangs and failures without a message by their place in
the code; the exit status is 1 if there are any. `--index N` runs one trial again and shows it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fuzzing.inputs import require_whole, write_inputs
from fuzzing.run import Outcome, Runner

BAD = ("traceback", "crash", "hang", "silent")


def fuzz(count: int, seed: int, first: int = 0, training: bool = True) -> list[Outcome]:
    """Run trials first … first + count − 1 and return their outcomes.

    training: also of `asr train`, whose trials take seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        cases = write_inputs(Path(folder, "whole"), training)
        work = Path(folder, "work")
        require_whole(cases, work)
        runner = Runner(seed, cases, work)
        found = [runner.trial(index) for index in range(first, first + count)]
        runner.close()
    return found


def main() -> int:
    """Run the trials and print a report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--index", type=int, help="run this trial alone")
    given = parser.parse_args()
    begun = time.monotonic()
    if given.index is not None:
        found = fuzz(1, given.seed, given.index)
        print(found[0])
    else:
        found = fuzz(given.count, given.seed)
    kinds = Counter(each.kind for each in found)
    places: dict[tuple[str, str], list[Outcome]] = {}
    for each in found:
        if each.kind in BAD:
            places.setdefault((each.kind, each.what), []).append(each)
    for (kind, what), its in sorted(places.items(), key=lambda pair: -len(pair[1])):
        some = ", ".join(f"{each.index} ({each.case})" for each in its[:3])
        print(f"{len(its):5}  {kind}: {what}\n       {some}")
    said = ", ".join(f"{kinds[kind]} {kind}" for kind in ("good", "refused", *BAD))
    print(
        f"{len(found)} damaged inputs, seed {given.seed}: {said}; {time.monotonic() - begun:.0f} s"
    )
    return int(any(kinds[kind] for kind in BAD))


if __name__ == "__main__":
    sys.exit(main())
