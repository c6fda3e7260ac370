"""Kill one of two processes of a training at random moments, and compare the results.

    python tests/elastic_kills.py 40 [SEED]

torchrun starts both anew after each kill. A kill that comes after the end of the run is drawn
again. Prints the runs whose weights differ from those of an uninterrupted run, by a bit; the exit
status is 1 if there are any.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from elastic import RESTARTED
from tones import write_tones

sys.path.insert(0, str(Path(__file__).parent / "training"))

from test_elastic import ELASTIC, torchrun, weights


def main() -> int:
    """Run the trials."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    draw = random.Random(seed)
    late, differing = 0, []
    with TemporaryDirectory() as place:
        tones = write_tones(Path(place) / "tones", utterances=30)
        assert torchrun(tones, Path(place) / "whole", "-m", "asr").returncode == 0
        whole = weights(Path(place) / "whole")
        for number in range(count):
            killed = None
            while killed is None or (killed.returncode == 0 and RESTARTED not in killed.stderr):
                late += killed is not None
                step = draw.randrange(8) + draw.random() * draw.randrange(2)
                rank = draw.randrange(2)
                folder = Path(place) / f"{number}-{late}"
                arguments = (str(ELASTIC), "SIGKILL", f"{step:.3f}", str(rank))
                killed = torchrun(tones, folder, *arguments, restarts=1)
            same = killed.returncode == 0 and all(
                torch.equal(whole[name], value) for name, value in weights(folder).items()
            )
            if not same:
                differing.append(number)
            print(f"{number}: killed process {rank} at step {step:.3f}: {same}", flush=True)
    print(f"{count} kills, {late} drawn again, {len(differing)} differences")
    return int(bool(differing))


if __name__ == "__main__":
    raise SystemExit(main())
