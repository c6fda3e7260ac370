"""`asr train` in which one process of torchrun is killed or stopped once, at a step that is given.

    torchrun --nproc-per-node 2 --max-restarts 1 tests/elastic.py SIGNAL STEP RANK train …

sends the signal to the process of that rank before it takes that step, in the first attempt only.
A decimal STEP sends it later: 3.4 is 0.4 s after the beginning of step 3.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from asr.cli import main
from asr.training import distributed, loop

RESTARTED = "a further attempt of this process"


def strike(number: int, step: float, rank: int) -> None:
    """Send the signal to this process before or during a step, if it has this rank."""
    take = loop._Trainer.step
    delay = step - int(step)

    def struck(trainer: loop._Trainer, batches: list[loop.Made]) -> None:
        if trainer.progress.step == int(step) and distributed.rank() == rank:
            if delay:
                threading.Timer(delay, os.kill, (os.getpid(), number)).start()
            else:
                os.kill(os.getpid(), number)
        take(trainer, batches)

    loop._Trainer.step = struck


if __name__ == "__main__":
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        name, step, rank = sys.argv[1:4]
        strike(signal.Signals[name], float(step), int(rank))
    else:
        print(RESTARTED, file=sys.stderr, flush=True)
    raise SystemExit(main(sys.argv[4:]))
