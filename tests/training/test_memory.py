"""What a step does without enough memory beside the CUDA graphs of earlier ones."""

from types import SimpleNamespace

import pytest
import torch

from asr.errors import UserError
from asr.models.fused.graphs import GRAPHS, SHARE, LoopGraph
from asr.training import distributed
from asr.training.gradients import Entry, Gradients, Made
from asr.training.state import Progress

BATCHES = [Made(None, True, Entry(0, 0, [1, 2, 3]))]
OUT_OF_MEMORY = "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in …"


@pytest.fixture
def attempts(monkeypatch):
    """Gradients that fail twice; the pieces of each attempt, and whether graphs were kept."""
    monkeypatch.setattr(GRAPHS, "_graphs", {"a size": object.__new__(LoopGraph)})
    monkeypatch.setattr(GRAPHS, "_share", SHARE)
    found = []
    gradients = Gradients(SimpleNamespace(model=torch.nn.Linear(1, 1)), Progress())

    def add(batches, step, pieces):
        found.append((pieces, bool(GRAPHS._graphs)))
        if len(found) < 3:
            raise RuntimeError(OUT_OF_MEMORY)
        return {}

    monkeypatch.setattr(gradients, "_add", add)
    return gradients, found


def test_graphs_make_room_before_a_batch_is_computed_in_pieces(attempts, capsys):
    gradients, found = attempts
    gradients.add(BATCHES, 7, 1)
    assert found == [(1, True), (1, False), (2, False)]
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("step 7: no memory beside the CUDA graphs; fewer are kept now")
    assert second.endswith("step 7: a batch does not fit into memory; again in 2 pieces")
    assert GRAPHS._share == SHARE / 2


def test_several_processes_keep_their_graphs_since_one_alone_cannot_repeat_a_step(
    attempts, monkeypatch
):
    gradients, found = attempts
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    with pytest.raises(UserError, match="a batch of 3 does not fit into memory"):
        gradients.add(BATCHES, 7, 1)
    assert found == [(1, True)]
