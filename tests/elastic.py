"""`asr train` in which one process of torchrun is killed or stopped once, at a step that is given.

    torchrun --nproc-per-node 2 --max-restarts 1 tests/elastic.py SIGNAL STEP RANK train …

sends the signal to the process of that rank before it takes that step, in the first attempt only.
"""

from __future__ import annotations

import os
import signal
import sys

from asr.cli import main
from asr.training import distributed, loop


def strike(number: int, step: int, rank: int) -> None:
    """Send the signal to this process before a step, if it has this rank."""
    take = loop._Trainer.step

    def struck(trainer: loop._Trainer, batches: list[loop.Made]) -> None:
        if trainer.progress.step == step and distributed.rank() == rank:
            os.kill(os.getpid(), number)
        take(trainer, batches)

    loop._Trainer.step = struck


if __name__ == "__main__":
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        name, *numbers = sys.argv[1:4]
        strike(signal.Signals[name], *map(int, numbers))
    raise SystemExit(main(sys.argv[4:]))
