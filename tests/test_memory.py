"""Bytes: 4 a number, MB = 10^6."""

import pytest
import torch

from clbench.memory import Memory, of_model, of_tensors
from clbench.networks import MLP, MultiHead


def test_the_mlp_with_five_two_way_heads_is_1_08_mb() -> None:
    model = MultiHead(MLP((1, 28, 28)), [2] * 5)
    by_hand = (784 * 256 + 256) + (256 * 256 + 256) + 5 * (256 * 2 + 2)
    assert sum(p.numel() for p in model.parameters()) == by_hand == 269_322
    assert of_model(model) == 4 * 269_322
    assert round(of_model(model) / 1e6, 2) == 1.08


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_1300_images_of_3x32x32_are_15_97_mb(dtype: torch.dtype) -> None:
    images = torch.empty(1300, 3, 32, 32, dtype=dtype)
    assert of_tensors([images]) == 15_974_400
    assert round(of_tensors([images]) / 1e6, 2) == 15.97


def test_memory_adds_up_by_kind() -> None:
    total = Memory(architecture=1) + Memory(replay=2, auxiliary=3) + Memory(replay=4)
    assert total == Memory(architecture=1, replay=6, auxiliary=3)
