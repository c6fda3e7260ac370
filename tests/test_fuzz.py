"""A short part of the fuzzer; the long one is `python tests/fuzz.py --count 10000`."""

from fuzz import BAD, fuzz


def test_no_damaged_input_gives_a_traceback() -> None:
    outcomes = fuzz(count=60, seed=7, training=False)
    assert not [each for each in outcomes if each.kind in BAD]
    assert sum(each.kind == "refused" for each in outcomes) > 30
