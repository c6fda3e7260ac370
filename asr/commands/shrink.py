"""`asr shrink`: store a recogniser in few bits, and remove units until it fits into a size."""

from __future__ import annotations

from pathlib import Path

from asr.render.tables import text_table


def run(model: Path, folder: Path, most: float, bits: int | None) -> int:
    """Write a smaller copy; print sizes and what is left to do; return 0.

    most: bytes of the copy's weights. bits: of each, 8, 4 or 3; None: the most that suffice.

    Raises:
        UserError: the model cannot be pruned or made as small as that, or the folder exists.
    """
    from asr.models.shrink import shrink

    smaller = shrink(model, folder, most, bits)
    rows = [
        ("weights, MB", *(f"{each / 1e6:.1f}" for each in smaller.sizes)),
        ("parameters, million", *(f"{each / 1e6:.2f}" for each in smaller.parameters)),
        ("units of an LSTM's direction", *map(str, smaller.encoder)),
        ("units of the decoder", *map(str, smaller.decoder)),
    ]
    print(text_table(("", "before", "after"), rows))
    if smaller.is_pruned:
        print(
            f"{folder}: pruned, weights in {smaller.bits} bits; it needs training "
            f"(asr train --from {folder} MANIFEST RUN)"
        )
    else:
        print(f"{folder}: all units kept, weights in {smaller.bits} bits")
    return 0
