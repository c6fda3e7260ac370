"""The comparison of runtimes."""

import runpy
import sys
from pathlib import Path

from tiny_model import write_tiny_model

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "runtimes.py"


def test_runtimes_are_compared_alone_and_in_batches(tmp_path, monkeypatch, capsys):
    model = write_tiny_model(tmp_path / "tiny")
    manifest = ROOT / "data" / "speech" / "manifest.jsonl"
    engines = [f"{model}:numpy", f"{model}:torch"]
    words = [manifest, "--limit", 2, "--what", "encoder", "greedy", "--engines", *engines]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, words)])
    runpy.run_path(str(SCRIPT))["main"]()
    first, _, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("2 recordings")
    assert [row.split()[:3] for row in rows] == [
        [what, count, engine]
        for what in ("encoder", "greedy")
        for count in ("1", "8")
        for engine in engines
    ]
    assert all(0 < float(row.split()[3]) < 10 for row in rows)
    assert [row.split()[4] for row in rows] == ["–"] * 4 + ["2/2"] * 4


def test_texts_that_differ_are_counted():
    script = runpy.run_path(str(SCRIPT))
    results = [
        script["Result"]("one", "greedy", 1, 2.0, ["a", "b"]),
        script["Result"]("two", "greedy", 1, 1.0, ["a", "c"]),
    ]
    assert script["table"](results, 4.0) == [
        ("greedy", "1", "one", "0.5000", "2/2"),
        ("greedy", "1", "two", "0.2500", "1/2"),
    ]
