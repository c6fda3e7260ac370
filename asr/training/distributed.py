"""Data-parallel training over several processes, on CPU cores or GPUs.

Each process computes every n-th example of a batch, weighted so that losses and gradients add up to
those of the whole batch. On a CPU, two processes of one thread are 50 % faster than one process of
two threads: most matrix products of a recurrent network are too small to parallelise.

Gradients are added in one buffer after the backward pass, not by torch's
`DistributedDataParallel`: the weights differ between the terms of a loss, and the loop stays the
same for one process.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeVar
from uuid import uuid4

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]  # torch's
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

from asr.errors import UserError
from asr.training import stopping

PARENT_CHECK_SECONDS: Final = 1.0
ANSWER_CHECK_SECONDS: Final = 0.02
LONGEST_WAIT: Final = timedelta(hours=3)  # for another process, such as for its validation
LONGEST_START: Final = timedelta(minutes=10)  # until all processes have been started
BACKEND: Final = "cpu:gloo,cuda:nccl"
ANSWERS: Final = (UserError, OSError, MemoryError, ModuleNotFoundError)  # see `errors.exit_status`

Result = TypeVar("Result")


class Share(NamedTuple):
    """The part of a batch that a process computes, and whether its losses count."""

    part: slice
    counts: bool


def rank() -> int:
    """Return the rank of this process, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def world_size() -> int:
    """Return the number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def is_first() -> bool:
    """Return whether torchrun, if it started this process, made it the first one."""
    return int(os.environ.get("RANK", "0")) == 0


def share_of(size: int) -> Share:
    """Return this process's share of a batch: every n-th example.

    A process for which none is left computes the first one, which does not count, because each
    takes part in every sum.
    """
    if rank() < size:
        return Share(slice(rank(), None, world_size()), counts=True)
    return Share(slice(0, 1), counts=False)


def sums(values: Sequence[float]) -> list[float]:
    """Return the sum of each value over the processes, in float64."""
    if world_size() == 1:
        return [*values]
    added = torch.tensor(values, dtype=torch.float64)
    _reduce(added)
    found: list[float] = added.tolist()
    return found


def add_up(tensors: Sequence[Tensor]) -> None:
    """Replace each tensor by its sum over the processes; all are on one device."""
    if world_size() == 1 or not tensors:
        return
    flat = torch.cat([each.flatten() for each in tensors])
    _reduce(flat)
    parts = flat.split([each.numel() for each in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.copy_(part.view_as(tensor))


def begin_alike(model: nn.Module, step: int) -> None:
    """Give every process the weights and buffers of the first one.

    Raises:
        UserError: the processes are at different steps.
    """
    if world_size() == 1:
        return
    if largest(step) != -largest(-step):
        raise UserError(
            "the processes have different checkpoints: the run folder must be one that all "
            "machines share"
        )
    for each in model.state_dict().values():
        _spread(each)


def from_first(value: float) -> float:
    """Return the value of process 0 in every process."""
    if world_size() == 1:
        return value
    shared = torch.tensor([value], dtype=torch.float64)
    _spread(shared)
    return float(shared)


def largest(value: int) -> int:
    """Return the largest value of all processes."""
    if world_size() == 1:
        return value
    shared = torch.tensor([value])
    _reduce(shared, distributed.ReduceOp.MAX)
    return int(shared)


@contextmanager
def _connected() -> Iterator[None]:
    """Replace the error of a lost connection by one line."""
    try:
        yield
    except RuntimeError as error:
        raise UserError(
            f"process {rank()} lost the connection to another process of this run, which has ended"
        ) from error


def _reduce(tensor: Tensor, by: Any = distributed.ReduceOp.SUM) -> None:
    """Reduce a tensor over the processes, in place."""
    with _connected():
        distributed.all_reduce(tensor, by)


def _spread(tensor: Tensor) -> None:
    """Replace a tensor by that of the first process."""
    with _connected():
        distributed.broadcast(tensor, src=0)


def run_in_processes(count: int, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call function(*arguments) in `count` connected processes; return the first one's result.

    A count of 1 calls it in this process. Under torchrun, which sets RANK and WORLD_SIZE, the
    count is torchrun's, and the result is that of this process.

    Raises:
        UserError: raised by one of the processes, or one was killed; the others are terminated.
    """
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        local = int(os.environ.get("LOCAL_RANK", os.environ["RANK"]))
        beside = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
        place = (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        _end_with_parent()
        return _join(place, (local, beside), function, arguments)
    if count == 1:
        return function(*arguments)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = str(_free_port())
    results = multiprocessing.get_context("spawn").SimpleQueue()
    try:
        _join_all(
            spawn(_join_child, (count, results, function, arguments), nprocs=count, join=False)
        )
    except ProcessExitedException as error:
        raise _reason(error, results) from error
    result: Result = results.get()
    return result


def _join_all(children: Any) -> None:
    """Wait for processes, and pass SIGTERM on to them; children: torch's `ProcessContext`."""
    passed_on = False
    while not children.join(PARENT_CHECK_SECONDS):
        if stopping.requested() and not passed_on:
            passed_on = True
            for child in children.processes:
                child.terminate()


def _reason(error: ProcessExitedException, results: Any) -> Exception:
    """Return the error that a process has sent before it exited, or one line on its signal."""
    if error.signal_name is not None:
        return UserError(
            f"process {error.error_index} of this run was ended by {error.signal_name}, such as "
            "for want of memory; the same command resumes from the last checkpoint"
        )
    while not results.empty():  # the first process may have sent its result
        if isinstance(sent := results.get(), Exception):
            return sent
    return error


def _join(
    place: tuple[int, int],
    local: tuple[int, int],
    function: Callable[..., Result],
    arguments: tuple[Any, ...],
) -> Result:
    """Run the function as one of the processes; place, local: rank and count, of this machine."""
    if torch.cuda.is_available():
        torch.cuda.set_device(local[0] % torch.cuda.device_count())
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local[1]))
    store, *_ = next(rendezvous("env://", *place, timeout=LONGEST_START))
    distributed.init_process_group(
        BACKEND if torch.cuda.is_available() else "gloo",
        store=_unused(store, *place),
        rank=place[0],
        world_size=place[1],
        timeout=LONGEST_WAIT,
    )
    try:
        return function(*arguments)
    finally:
        distributed.destroy_process_group()


def _unused(store: Any, own_rank: int, count: int) -> Any:
    """Return a part of a store that no earlier attempt has used.

    torchrun (2.13) keeps one store for all attempts, so that a process that is started again may
    read the address of one that has died. Every process gives itself a name; the first one, whose
    name is that of the part, hands it to the names that it finds until all have answered.
    """
    own = uuid4().hex
    if own_rank > 0:
        store.set(f"name/{own_rank}", own)
        part = store.get(f"part/{own}").decode()  # waits for it
        store.set(f"answer/{part}/{own_rank}", "")
        return PrefixStore(part, store)
    missing = set(range(1, count))
    while missing:
        for each in missing:
            if store.check([f"name/{each}"]):
                store.set(f"part/{store.get(f'name/{each}').decode()}", own)
        missing = {each for each in missing if not store.check([f"answer/{own}/{each}"])}
        time.sleep(ANSWER_CHECK_SECONDS)
    return PrefixStore(own, store)


def _join_child(
    own_rank: int,
    count: int,
    results: Any,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    """Run the function as a child process; exit when the parent process exits."""
    _end_with_parent()
    place = (own_rank, count)
    try:
        _join(place, place, _answer, (results, function, arguments))
    except Exception:  # sent to the parent process
        raise SystemExit(1) from None


def _answer(results: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Send the first process's result, or an error: before others note that this one has ended."""
    try:
        result = function(*arguments)
    except ANSWERS as error:
        results.put(error)
        raise
    except Exception:
        results.put(ProcessRaisedException(f"\n{traceback.format_exc()}", rank(), os.getpid()))
        raise
    if rank() == 0:
        results.put(result)


def _end_with_parent() -> None:
    """Exit when the parent process has ended, also if it was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
