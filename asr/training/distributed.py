"""Data-parallel training over several processes, on CPU cores or GPUs.

Each process computes every n-th utterance of a batch; gradients are averaged. On a CPU, two
processes of one thread are 50 % faster than one process of two threads: most matrix products of a
recurrent network are too small to parallelise.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import distributed, nn
from torch.multiprocessing.spawn import ProcessRaisedException, spawn

from asr.errors import UserError

PARENT_CHECK_SECONDS = 1.0


def rank() -> int:
    """Return the rank of this process, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def world_size() -> int:
    """Return the number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def share_of(indices: Sequence[int]) -> list[int]:
    """Return this process's part of a batch: every n-th example, at least one."""
    return list(indices[rank() :: world_size()]) or list(indices[:1])


def average_gradients(model: nn.Module) -> None:
    """Replace each gradient by its mean over the processes."""
    if world_size() == 1:
        return
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    flat = torch.cat([each.flatten() for each in gradients])
    distributed.all_reduce(flat)
    flat /= world_size()
    parts = flat.split([each.numel() for each in gradients])
    torch._foreach_copy_(
        gradients, [part.view_as(each) for part, each in zip(parts, gradients, strict=True)]
    )


def from_first(value: float) -> float:
    """Return the value of process 0 in every process."""
    if world_size() == 1:
        return value
    shared = torch.tensor([value], dtype=torch.float64)
    distributed.broadcast(shared, src=0)
    return float(shared)


def any_of(flag: bool) -> bool:
    """Return whether the flag is set in any process."""
    if world_size() == 1:
        return flag
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    count = torch.tensor([float(flag)], device=device)
    distributed.all_reduce(count)
    return bool(count > 0)


def run_in_processes(count: int, function: Callable[..., Any], *arguments: Any) -> None:
    """Call function(*arguments) in `count` connected processes on this machine.

    A count of 1 calls it in this process. Under torchrun, which sets RANK and WORLD_SIZE, the
    count is torchrun's.

    Raises:
        UserError: raised by one of the processes; the others are terminated.
    """
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        _join(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), function, arguments)
    elif count == 1:
        function(*arguments)
    else:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ["MASTER_PORT"] = str(_free_port())
        try:
            spawn(_join_child, args=(count, function, arguments), nprocs=count)
        except ProcessRaisedException as error:
            raise UserError(_last_line(str(error))) from error


def _join(
    own_rank: int, count: int, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    """Run the function as one of the processes."""
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(own_rank % torch.cuda.device_count())
    else:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // count))
    distributed.init_process_group(backend, rank=own_rank, world_size=count)
    try:
        function(*arguments)
    finally:
        distributed.destroy_process_group()


def _join_child(
    own_rank: int, count: int, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    """Run the function as a child process; exit when the parent process exits."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    _join(own_rank, count, function, arguments)


def _end_with(parent: int) -> None:
    """Exit when the parent process has ended, also if it was killed."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _last_line(trace: str) -> str:
    """Return the error message at the end of a traceback."""
    line = trace.strip().splitlines()[-1]
    return line.partition(": ")[2] or line
