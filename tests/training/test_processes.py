"""What ends one of several processes is what the run says."""

import os
import signal

import pytest
import torch
from torch.multiprocessing import ProcessRaisedException

from asr.errors import UserError
from asr.training import distributed


def ending(kind):
    """End the second process in some way; the first one waits for it."""
    if distributed.rank() == 1:
        if kind == "lines":
            raise UserError("data.jsonl: 2 problems\n  line 1: no audio\n  line 2: no text")
        if kind == "bug":
            raise KeyError("key")
        os.kill(os.getpid(), signal.SIGKILL)
    distributed.add_up([torch.zeros(1)])


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("lines", UserError, r"^data.jsonl: 2 problems\n  line 1: no audio\n  line 2: no text$"),
        ("bug", ProcessRaisedException, r"Traceback(.|\n)*KeyError: 'key'"),
        ("killed", UserError, r"^process 1 of this run was ended by SIGKILL, such as .*memory"),
    ],
)
def test_the_error_of_a_process_arrives_whole(kind, error, message):
    with pytest.raises(error, match=message):
        distributed.run_in_processes(2, ending, kind)
