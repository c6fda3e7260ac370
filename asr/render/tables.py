"""Format rows as an aligned text table or as a Markdown table."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

Cell = str | int | float | None


def text_table(header: Sequence[str], rows: Sequence[Sequence[Cell]], digits: int = 2) -> str:
    """Return rows as text in columns; columns of numbers are aligned to the right.

    Floats get `digits` decimals, None an en dash. No trailing spaces, no newline at the end.

    Raises ValueError if the length of a row differs from the header.
    """
    cells, right = _prepare(header, rows, digits)
    widths = [max(_width(row[i]) for row in cells) for i in range(len(header))]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(_pad(cell, widths[i], right[i]) for i, cell in enumerate(row)).rstrip()
        for row in cells
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[Cell]], digits: int = 2) -> str:
    """Return rows as a Markdown table, readable as plain text too; ``|`` in a cell is escaped.

    Floats get `digits` decimals, None an en dash. No newline at the end.

    Raises ValueError if the length of a row differs from the header.
    """
    cells, right = _prepare(header, rows, digits)
    cells = [[" ".join(c.replace("|", "\\|").split()) for c in row] for row in cells]
    widths = [max(3, *(_width(row[i]) for row in cells)) for i in range(len(header))]
    rule = ["-" * (w - 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True)]
    cells.insert(1, rule)
    return "\n".join(
        "| " + " | ".join(_pad(cell, widths[i], right[i]) for i, cell in enumerate(row)) + " |"
        for row in cells
    )


def _prepare(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], digits: int
) -> tuple[list[list[str]], list[bool]]:
    """Return all cells as text, header first, and for each column whether it is numeric."""
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"row {list(row)} has {len(row)} cells, the header {len(header)}")
    cells = [list(header), *([_show(cell, digits) for cell in row] for row in rows)]
    right = [
        bool(rows) and all(row[i] is None or isinstance(row[i], int | float) for row in rows)
        for i in range(len(header))
    ]
    return cells, right


def _show(cell: Cell, digits: int) -> str:
    if cell is None:
        return "\N{EN DASH}"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def _pad(cell: str, width: int, right: bool) -> str:
    space = " " * (width - _width(cell))
    return space + cell if right else cell + space


def _width(text: str) -> int:
    """Return the terminal width of `text`: two for wide characters, 0 for combining marks."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
