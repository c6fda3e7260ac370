"""Build the site in build/site: the Markdown of the repository and a generated reference.

    python docs/build.py [--reference]

The command and configuration references, docs/reference/commands.md and configuration.md, are
written anew from the code; --reference does that alone. They are kept in the repository, so that
they can be read there, and a test compares them with the code.

The pages keep their places (README.md, docs/, recipes/ …), so that their relative links work in
the site as they do in the repository. Files that they link to are copied along. Warnings, such as
a link that leads nowhere, fail the build. Nothing is fetched from a network.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the code beside this file, whatever is installed
STAGE = ROOT / "build" / "docs"
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "data/*.md",
    "recipes/**/*.md",
    "asr/pretrained/*/README.md",
)
LINK = re.compile(r"""\]\(([^)\s#]+)|(?:src|href)="([^"#]+)""")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    """All Markdown files of the site, relative to the root of the repository."""
    found = {file.relative_to(ROOT) for pattern in PAGES for file in ROOT.glob(pattern)}
    return sorted(found)


def links(page: Path) -> Iterator[Path]:
    """The files of the repository that a page links to, relative to its root.

    Raises:
        FileNotFoundError: one of them is not there.
    """
    text = CODE.sub("", (ROOT / page).read_text("utf-8"))
    for match in LINK.finditer(text):
        target = match[1] or match[2]
        if re.match(r"[a-z]+:", target):
            continue  # to another site
        file = (ROOT / page.parent / target).resolve()
        if not file.is_relative_to(ROOT) or not file.is_file():
            raise FileNotFoundError(f"{page}: links to {target}, which is no file of the project")
        yield file.relative_to(ROOT)


def reference() -> dict[str, str]:
    """The pages that are made from the code: path relative to the root → Markdown."""
    try:
        from asr.commands.reference import command_reference, config_reference
    except ModuleNotFoundError:  # until that module is there, the pages stay as they are
        return {}
    return {
        "docs/reference/commands.md": command_reference(),
        "docs/reference/configuration.md": config_reference(),
    }


def stage() -> None:
    """Gather the pages and the files that they link to in `STAGE`."""
    shutil.rmtree(STAGE, ignore_errors=True)
    written = pages()
    for file in {*written, *(file for page in written for file in links(page))}:
        (STAGE / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, STAGE / file)


def main() -> int:
    """Stage the pages and build the site; return the status of the builder."""
    parser = argparse.ArgumentParser(description="Build the documentation in build/site.")
    parser.add_argument("--reference", action="store_true", help="write docs/reference, no site")
    given = parser.parse_args()
    for path, text in reference().items():
        (ROOT / path).write_text(text, "utf-8")
    if given.reference:
        return 0
    try:
        stage()
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    build = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    return subprocess.call(build, cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
