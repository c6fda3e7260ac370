"""Durations in messages."""


def duration_text(seconds: float) -> str:
    """Return a duration in the largest unit that it has, such as "19.2 min"."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"
