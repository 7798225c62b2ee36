"""Avalanche's AR1 brings its own network: a MobileNet for colour images of 128x128 pixels."""

from typing import Any

import numpy as np
import pytest
import torch
from avalanche.models import MobilenetV1
from avalanche.training.supervised import AR1, ar1
from test_stock import _learn

from clbench.build import built
from clbench.data import Images
from clbench.method import Method
from clbench.protocol import Protocol
from clbench.seeding import seed_everything
from clbench.stream import Source, Stream

pytestmark = [
    pytest.mark.filterwarnings("ignore:The AR1 strategy"),
    pytest.mark.filterwarnings("ignore:No benchmark provided"),
    pytest.mark.filterwarnings("ignore:No loggers specified"),
]


class _Method(Method):
    title = "AR1"
    family = "memory"

    def build(self, stream: Stream) -> Any:
        return AR1(train_epochs=1, train_mb_size=8, rm_sz=8)


@pytest.fixture(autouse=True)
def _not_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """AR1 asks for weights from the network; these are random."""

    def untrained(pretrained: bool, latent_layer_num: int) -> Any:
        return MobilenetV1(pretrained=False, latent_layer_num=latent_layer_num)

    monkeypatch.setattr(ar1, "MobilenetV1", untrained)


def _stream(channels: int, size: int) -> Stream:
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 4
    pixels = rng.integers(0, 99, (24, channels, size, size)) + 40 * labels.reshape(-1, 1, 1, 1)
    images = Images(pixels.astype(np.uint8), labels)
    sources = [Source(images, images, (k, k + 1), (0.5,), (0.25,)) for k in (0, 2)]
    protocol = Protocol(batch_size=8, epochs=1)
    return Stream(sources, name="x", backbone="mlp", protocol=protocol, seed=0)


def test_it_learns_large_colour_images_and_resumes() -> None:
    torch.set_num_threads(1)
    strategy = built(_Method(), _stream(3, 128))
    for i in range(2):
        strategy.accuracy(i)
    seed_everything(0, "task", 0)
    strategy.learn(0)
    state = strategy.state_dict()
    rest = _learn(strategy, 1)
    assert strategy.memory().auxiliary > 8 * 4 * 512 * 4 * 4  # latent activations
    again = built(_Method(), _stream(3, 128))
    again.load_state_dict(state)
    assert _learn(again, 1) == rest


@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 32)])
def test_it_fails_on_others(channels: int, size: int) -> None:
    strategy = built(_Method(), _stream(channels, size))
    with pytest.raises(RuntimeError, match=r"to have 3 channels|Output size is too small"):
        strategy.accuracy(0)
