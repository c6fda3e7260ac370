"""The Triton kernel: equal to the plain path, compiled for GPUs, and needed only on a GPU.

What needs Triton's interpreter is in `triton_interpreted.py`, what needs its compiler in
`triton_compiled.py`: each runs in a process of its own, because a process has one of the two.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from asr.attention import KINDS, AdditiveAttention, Annotations
from asr.attention.normalizers import build_normalizer
from asr.errors import UserError, exit_status
from asr.models.settings import AttentionSettings, TranslationSettings
from asr.models.translation import build_translation_model
from asr.tables import from_table, refuse_unread

HERE = Path(__file__).parent
needs_triton = pytest.mark.skipif(
    find_spec("triton") is None, reason="needs triton: the extra `triton` (Linux, x86_64)"
)


def run(*arguments: str, **variables: str) -> str:
    """Run Python in a process of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **variables},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_triton
def test_in_the_interpreter_it_equals_the_plain_path() -> None:
    file = str(HERE / "triton_interpreted.py")
    shown = run("-m", "pytest", "-q", "-p", "no:cacheprovider", file, TRITON_INTERPRET="1")
    summary = shown.splitlines()[-1]
    assert re.fullmatch(r"\d\d passed(, \d+ warnings?)? in .*", summary), summary  # none skipped


@needs_triton
def test_it_compiles_for_gpus(tmp_path: Path) -> None:
    file = str(HERE / "triton_compiled.py")
    shown = run(file, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path))
    assert len(shown.splitlines()) == 12  # three kernels of two dtypes for two GPUs


def test_on_a_linux_machine_of_this_project_triton_is_installed() -> None:
    """So that the tests above are not skipped where the extra `dev` is installed."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("the extra dev has triton on Linux, x86_64")
    assert find_spec("triton") is not None, "pip install -c constraints.txt -e '.[dev]'"


def attend(attention: AdditiveAttention) -> torch.Tensor:
    torch.manual_seed(1)
    mask = torch.ones(2, 9, dtype=torch.bool)
    memory = attention.prepare(Annotations(torch.randn(2, 9, 4), mask))
    context, _ = attention(torch.randn(2, 1, 3), memory, attention.start(memory))
    return context


def make(triton: bool) -> AdditiveAttention:
    torch.manual_seed(1)
    return AdditiveAttention(3, 4, 5, 2, 3, triton=triton)


def without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "asr.attention.triton_kernel", raising=False)


def test_a_cpu_needs_no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    without_triton(monkeypatch)
    assert torch.equal(attend(make(triton=True)), attend(make(triton=False)))


def test_without_triton_a_gpu_gets_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_triton(monkeypatch)
    monkeypatch.setattr(AdditiveAttention, "uses_kernel", lambda self, device: True)
    assert exit_status(lambda: attend(make(triton=True)) and None) == 2
    install = "pip install -c constraints.txt -e '.[triton]'"
    wanted = f"asr: error: this needs triton, of the extra `triton`: {install}\n"
    assert capsys.readouterr().err == wanted


def test_it_is_used_where_it_is_set_and_on_cuda_alone() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 1)
    used = [make(triton).uses_kernel(device) for triton in (False, True) for device in (cpu, cuda)]
    assert used == [False, False, False, True]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"additive"}))
def test_the_key_is_refused_by_kinds_that_do_not_read_it(kind: str) -> None:
    with pytest.raises(UserError, match=f'triton = true is not read with kind = "{kind}"'):
        refuse_unread(from_table(AttentionSettings, {"kind": kind, "triton": True}))


@pytest.mark.parametrize("normalizer", ["hard", "smoothed", "top_k"])
def test_the_key_is_refused_without_a_softmax(normalizer: str) -> None:
    settings = from_table(AttentionSettings, {"normalizer": normalizer, "triton": True})
    with pytest.raises(UserError, match="triton = true is not read with normalizer"):
        refuse_unread(settings)
    with pytest.raises(ValueError, match="triton = true computes a softmax"):
        AdditiveAttention(3, 4, triton=True, normalizer=build_normalizer(normalizer))


@pytest.mark.parametrize("heads", [1, 2])
def test_the_key_reaches_the_mechanism(heads: int) -> None:
    attention = {"triton": True, "heads": heads, "temperature": 2.0}
    settings = from_table(TranslationSettings, {"attention": attention})
    refuse_unread(settings)
    found = build_translation_model(settings, 5, 5).decoder.attention
    assert getattr(found, "head", found).triton is True


@needs_triton
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_it_equals_the_plain_path() -> None:
    found = []
    for triton in (False, True):
        attention = make(triton).cuda()
        torch.manual_seed(1)
        values = torch.randn(3, 70, 4, device="cuda", requires_grad=True)
        mask = (torch.arange(70) < torch.tensor([[70], [41], [0]])).cuda()
        memory = attention.prepare(Annotations(values, mask))
        query = torch.randn(3, 2, 3, device="cuda", requires_grad=True)
        context, alignment = attention(query, memory, attention.start(memory, 2))
        context, alignment = attention(query, memory, alignment)
        loss = context.sin().sum() + alignment.weights.square().sum()
        gradients = torch.autograd.grad(loss, [query, values, *attention.parameters()])
        found.append([context, alignment.weights, *gradients])
    for plain, by_kernel in zip(*found, strict=True):
        torch.testing.assert_close(by_kernel, plain, atol=1e-5, rtol=1e-4)
