"""The example of a new attention mechanism in CONTRIBUTING.md, executed as written."""

import ast
import re
import sys
import tomllib
from pathlib import Path
from types import MappingProxyType, ModuleType

import pytest
from attention_contract import (
    check_decoder,
    check_distribution,
    check_gradients,
    check_low_precision,
    check_neighbours,
    make,
)

from asr.attention import KINDS, Window, contract
from asr.attention.normalizers import NORMALIZERS
from asr.models.settings import TranslationSettings
from asr.models.translation import build_translation_model
from asr.tables import from_table

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text("utf-8")
SECTION = TEXT.split("## Adding an attention mechanism\n")[1].split("\n## ")[0]


@pytest.fixture
def cosine(monkeypatch):
    """Add the new file and its line in `KINDS`; return the kind in the config."""
    path = re.search(r"The new file, `(asr/attention/\w+\.py)`", SECTION).group(1)
    (source, line), (config,) = (
        re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
        for language in ("python", "toml")
    )
    module = ModuleType(path.removesuffix(".py").replace("/", "."))
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    added = ast.literal_eval("{" + line + "}")
    monkeypatch.setattr(contract, "KINDS", MappingProxyType({**KINDS, **added}))
    kind = tomllib.loads(config)["kind"]
    assert kind in added and kind not in KINDS
    return kind


def test_the_line_of_a_config_builds_it_with_what_else_the_config_says(cosine):
    table = {"kind": cosine, "size": 16, "window_back": 2, "window_ahead": 3}
    settings = from_table(TranslationSettings, {"attention": table})
    built = build_translation_model(settings, 5, 5).decoder.attention
    assert type(built).__name__ == "CosineAttention" and built.window == Window(2, 3)


@pytest.mark.parametrize("heads", [1, 4])
def test_it_is_all_that_a_mechanism_must_be(cosine, heads):
    for check in (check_gradients, check_low_precision, check_decoder):
        check(make(cosine, heads=heads))
    for normalizer in NORMALIZERS:
        for window in (None, Window(2, 3)):
            check_distribution(make(cosine, normalizer, window, heads))
            check_neighbours(make(cosine, normalizer, window, heads))


def test_it_is_laid_out_as_the_code_is():
    source = re.search(r"```python\n(.*?)```", SECTION, re.DOTALL).group(1)
    assert max(map(len, source.splitlines())) <= 100
    tree = ast.parse(source)
    documented = [
        node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]
    assert all(ast.get_docstring(node) for node in documented if node.name != "__init__")
