"""The documentation: links are valid, lines are short, snippets and commands work."""

import argparse
import importlib.util
import json
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

from asr.commands.arguments import command_line
from asr.inference.options import DecodingOptions
from asr.model_folder import PRETRAINED

ROOT = Path(__file__).parents[1]
WIDEST = 120  # characters per line, except in tables, code, and unbreakable lines
README_LINES = 130
SEARCH = ROOT / "docs" / "search.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def load_builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = load_builder()
PAGES = [str(page) for page in build.pages()]


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def python_snippets() -> list[tuple[str, str]]:
    return [
        (page, code)
        for page in ("README.md", "docs/quickstart.md", "docs/python.md")
        for language, code in FENCE.findall(text_of(page))
        if language == "python"
    ]


def command_lines() -> list[tuple[str, str]]:
    """Return all `asr …` commands of code blocks, without comments, pipes and redirections."""
    found = []
    for page in PAGES:
        for language, block in FENCE.findall(text_of(page)):
            if language in ("", "sh"):
                lines = block.replace("\\\n", " ").splitlines()
                found += [(page, part) for line in lines for part in parts_of(line)]
    return found


def code_files() -> list[Path]:
    folders = ("asr", "recipes", "benchmarks")
    return [file for folder in folders for file in (ROOT / folder).rglob("*.py")]


def parts_of(line: str) -> list[str]:
    line = line.split(" # ")[0].split("   #")[0]
    parts = (part.strip() for part in re.split(r"\s(?:\||&&|<|>>?)\s", line))
    return [part for part in parts if part.startswith("asr ")]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    assert all((ROOT / file).is_file() for file in build.links(Path(page)))


def test_a_link_that_leads_nowhere_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.md").write_text("see [this](missing.md)", "utf-8")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"page\.md: links to missing\.md"):
        list(build.links(Path("page.md")))


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_short(page: str) -> None:
    text = FENCE.sub("", text_of(page))
    long = [
        line
        for line in text.splitlines()
        if len(line) > WIDEST and not line.lstrip().startswith(("|", "!", "<")) and " " in line
    ]
    assert long == []


def test_readme_is_short() -> None:
    assert len(text_of("README.md").splitlines()) <= README_LINES


def test_readme_keeps_the_two_commands_of_a_newcomer() -> None:
    blocks = [block for _, block in FENCE.findall(text_of("README.md"))]
    setup = "python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e "
    sample = "data/speech/5683-32866-0027.flac"
    assert f"{setup}. && .venv/bin/asr transcribe {sample}\n" in blocks
    assert f"{setup}'.[dev]' && .venv/bin/python tests/check.py\n" in blocks
    assert (ROOT / sample).is_file()


def test_install_lines_of_extras_name_the_tested_versions() -> None:
    lines = [
        (name, line)
        for name in (*PAGES, *map(str, code_files()))
        for line in re.findall(r"pip install[^`#]*?\.\[", text_of(name))
    ]
    assert len(lines) > 10
    assert [each for each in lines if "constraints.txt" not in each[1]] == []


def test_readme_names_files_that_are_there_and_the_command_that_ci_runs() -> None:
    readme = text_of("README.md")
    for name in re.findall(r"(?:data|tests|recipes|asr)/[\w./-]+\w", readme):
        assert (ROOT / name).exists(), name
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    for part in ("pip", "install -q -c constraints.txt -e '.[dev]'", "tests/check.py"):
        assert part in readme and part in script


@pytest.mark.parametrize(
    ("page", "code"), python_snippets(), ids=lambda each: each if each.endswith(".md") else ""
)
def test_python_snippets_run(
    page: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("asr", "data"):  # what the snippets read; they may write beside it
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec", dont_inherit=True), {"__name__": "snippet"})


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_command_lines_parse(page: str, line: str) -> None:
    words = [word for word in shlex.split(line) if not word.startswith("[")]
    if words[1].isupper() or "…" in line:
        pytest.skip("a pattern of a command line, not one to run")
    try:
        given = command_line().parse_args(words[1:])
    except SystemExit as left:
        pytest.fail(f"{page}: {line}: exit status {left.code}")
    assert isinstance(given, argparse.Namespace)


def test_the_reference_is_that_of_the_code() -> None:
    for path, text in build.reference().items():
        assert text_of(path) == text, f"{path} is not current: run python docs/build.py --reference"


@pytest.mark.parametrize(
    ("column", "model"),
    [(2, None), (3, "english"), (4, "english-plus"), (5, "english-plus-small")],
)
def test_the_table_of_search_weights_is_that_of_the_models(column: int, model: str | None) -> None:
    row = re.compile(r"\| . \| `(?:--)?([a-z_-]+)`")
    lines = [line for line in SEARCH.read_text("utf-8").splitlines() if row.match(line)]
    own = {}
    if model is not None:
        config = json.loads((PRETRAINED / model / "config.json").read_text("utf-8"))
        own = config["decoding"]
    wanted = asdict(DecodingOptions(**own))
    assert len(lines) >= 6
    for line in lines:
        name = row.match(line)[1].replace("-", "_")
        assert float(line.split("|")[1:][column]) == wanted[name], line
