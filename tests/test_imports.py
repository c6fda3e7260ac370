"""Imports go one way, and start-up is fast."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "asr"
JAVASCRIPT_IMPORT = re.compile(r'^import .* from "\./(.+)";$', re.MULTILINE)
HEAVY = ("torch", "numpy", "scipy", "librosa", "soundfile", "matplotlib", "jiwer", "tqdm")

# Package → the parts of asr that it may import in addition to itself, submodules included.
BASE = {
    *("asr.activations", "asr.checksums", "asr.errors", "asr.lazy", "asr.model_folder"),
    *("asr.products", "asr.reading", "asr.results", "asr.tables", "asr.translation"),
    "asr.weights",
}
SOUND = {"asr.audio"}
TEXT = {"asr.text"}
MODELS = {"asr.models", "asr.attention"}
SEARCH = {"asr.search", "asr.lm"}
FIGURES = {"asr.scoring", "asr.render"}
ALLOWED = {
    "asr.errors": set(),
    "asr.results": set(),
    "asr.translation": {"asr.results"},
    "asr.reading": set(),
    "asr.activations": set(),
    "asr.products": set(),
    "asr.lazy": set(),
    "asr.tables": {"asr.errors"},
    "asr.checksums": {"asr.errors"},
    "asr.model_folder": {"asr.checksums", "asr.errors"},
    "asr.weights": {"asr.checksums", "asr.errors"},
    "asr.attention": set(),
    "asr.audio": {"asr.errors"},
    "asr.text": {"asr.errors"},
    "asr.models": {"asr.attention", "asr.audio", *BASE},
    "asr.lm": SEARCH | TEXT | BASE,
    "asr.search": TEXT | BASE,
    "asr.alignment": {"asr.text", "asr.errors", "asr.results", "asr.translation"},
    "asr.runtime": MODELS | SEARCH | SOUND | TEXT | BASE | {"asr.alignment"},
    "asr.scoring": {"asr.render.tables", "asr.text.lines", "asr.text.scripts", *BASE},
    "asr.render": {"asr.text.abbreviations", "asr.text.scripts", *BASE},
    "asr.corpora": SOUND | TEXT | BASE,
    "asr.training": MODELS
    | SEARCH
    | SOUND
    | TEXT
    | FIGURES
    | {"asr.corpora", "asr.alignment", "asr.runtime"}
    | BASE,
    "asr.inference": MODELS
    | SEARCH
    | SOUND
    | TEXT
    | BASE
    | {"asr.alignment", "asr.corpora", "asr.render", "asr.runtime", "asr.scoring.sequences"},
    "asr.serve": MODELS
    | SEARCH
    | SOUND
    | TEXT
    | BASE
    | {"asr.alignment", "asr.inference", "asr.render", "asr.runtime"},
    "asr.commands": {"asr"},
    "asr.cli": {"asr.commands", *BASE},
    "asr.__main__": {"asr.cli", "asr.errors"},
}


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports(module: str) -> frozenset[str]:
    """Return all imports of a module, anywhere; `from a import b` is a.b if that is a module."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module}: relative imports are not used here"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return frozenset(found)


def lies_in(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


@pytest.mark.parametrize("module", [name for name in MODULES if name != "asr"])
def test_imports_only_what_its_room_may(module: str) -> None:
    room = ".".join(module.split(".")[:2])
    assert room in ALLOWED, f"{room} is new: say in this test what it may import"
    for imported in imports(module):
        if lies_in(imported, "asr") and not lies_in(imported, room):
            assert any(lies_in(imported, each) for each in ALLOWED[room]), f"{module} ← {imported}"


KERNEL = "asr.attention.triton_kernel"  # imported only where it runs, on a GPU


@pytest.mark.parametrize("module", [name for name in MODULES if lies_in(name, "asr.attention")])
def test_attention_imports_torch_alone(module: str) -> None:
    roots = {imported.split(".")[0] for imported in imports(module)}
    allowed = {"torch", "triton", "asr"} if module == KERNEL else {"torch", "asr"}
    assert roots - set(sys.stdlib_module_names) <= allowed


def test_triton_is_imported_in_one_place_and_not_at_import() -> None:
    holders = [name for name in MODULES if any(lies_in(one, "triton") for one in imports(name))]
    assert holders == [KERNEL]
    importers = [name for name in MODULES if any(lies_in(one, KERNEL) for one in imports(name))]
    assert importers == ["asr.attention.additive"]
    script = "import sys, asr.attention.additive, asr.models.speech; print('triton' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == "False\n"


NUMPY_ONLY = [
    name for name in MODULES if any(lies_in(name, room) for room in SEARCH | {"asr.alignment"})
]


@pytest.mark.parametrize("module", NUMPY_ONLY)
def test_search_language_models_and_alignment_import_numpy_alone(module: str) -> None:
    roots = {imported.split(".")[0] for imported in imports(module)}
    assert roots - set(sys.stdlib_module_names) <= {"numpy", "asr"}


def test_search_language_models_and_alignment_load_no_torch() -> None:
    script = f"import sys, {', '.join(NUMPY_ONLY)}; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == "False\n"


def test_nothing_imports_the_command_line() -> None:
    importers = [name for name in MODULES if any(lies_in(one, "asr.cli") for one in imports(name))]
    assert importers == ["asr.__main__"]


def test_torchaudio_is_imported_in_one_place() -> None:
    holders = [name for name in MODULES if "torchaudio" in MODULES[name].read_text("utf-8")]
    assert holders == ["asr.corpora.librispeech"]


def in_cycles(graph: dict[str, set[str]]) -> list[str]:
    """Return what is in a cycle, or needs something that is."""
    while leaves := {name for name, needed in graph.items() if not needed}:
        graph = {name: needed - leaves for name, needed in graph.items() if name not in leaves}
    return sorted(graph)


def test_there_are_no_cycles() -> None:
    # The package itself exports names lazily; below it, imports inside functions also count.
    graph = {name: {one for one in imports(name) if one in MODULES} for name in MODULES}
    assert in_cycles({**graph, "asr": set()}) == []


def test_there_are_no_cycles_in_the_web_page() -> None:
    scripts = (PACKAGE / "serve" / "page").glob("*.js")
    graph = {each.name: set(JAVASCRIPT_IMPORT.findall(each.read_text("utf-8"))) for each in scripts}
    assert "service.js" in graph["app.js"] and in_cycles(graph) == []


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("import asr", 0.2),
        ("from asr.cli import main; main(['--help'])", 0.5),
        ("from asr.cli import main; main(['evaluate', '--help'])", 0.5),
        ("from asr.cli import main; main(['--version'])", 0.5),
        ("from asr.cli import main; main(['transcribe', 'a.wav', '--beam', 'x'])", 0.5),
    ],
)
def test_starts_quickly_and_without_heavy_libraries(code: str, limit: float) -> None:
    script = f"""
import sys, time
start = time.process_time()  # CPU time, independent of other work on the machine
try:
    {code}
except SystemExit:
    pass
print(time.process_time() - start, [name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    seconds, heavy = done.stdout.splitlines()[-1].split(" ", 1)
    assert heavy == "[]"
    assert float(seconds) < limit


def test_names_of_the_package_are_there() -> None:
    import asr

    assert set(asr.__all__) <= set(dir(asr))
    for name in asr.__all__:
        assert getattr(asr, name).__module__ == asr._HOMES[name]
    with pytest.raises(asr.UserError, match="nowhere"):
        asr.load("nowhere")
    with pytest.raises(AttributeError, match="no attribute 'transcribe'"):
        asr.transcribe  # noqa: B018
