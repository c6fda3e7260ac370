"""The boundary model predicts a median offset, with separate outputs for starts and ends."""

import torch

from asr.models.boundary import CHARACTERS, FRAMES, REACH, BoundaryModel, surroundings

MELS, SYMBOLS = 4, 9


def test_the_offset_is_the_median_and_starts_differ_from_ends() -> None:
    model = BoundaryModel(MELS, SYMBOLS).eval()
    torch.nn.init.zeros_(model.output.weight)
    with torch.no_grad():
        model.output.bias.fill_(-20.0)
        model.output.bias.view(2, FRAMES)[0, REACH - 3] = 20.0  # starts: 3 frames earlier
        ends = model.output.bias.view(2, FRAMES)[1]
        ends[[REACH, REACH + 4, REACH + 9]] = torch.tensor([19.9, 20.0, 20.1])
    features = torch.randn(2, FRAMES, MELS)
    characters = torch.randint(0, SYMBOLS, (2, CHARACTERS))
    assert model.offsets(features, characters, torch.tensor([False, True])).tolist() == [-3, 4]


def test_surroundings_repeat_the_edges() -> None:
    count = 4 * REACH
    features = torch.arange(float(count))[:, None]
    found = surroundings(features, torch.tensor([2 * REACH, 0, count + 5]))[..., 0]
    assert found[0].tolist() == [*range(REACH, 3 * REACH + 1)]
    assert found[1].tolist() == [0.0] * REACH + [*range(REACH + 1)]
    inside = [*range(count + 5 - REACH, count)]
    assert found[2].tolist() == inside + [count - 1.0] * (FRAMES - len(inside))
