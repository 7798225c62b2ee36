"""Every method on colour images, in the AlexNet: it learns, and keeps what it says it keeps."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from clbench.conformance.trial import first_scenario
from clbench.data import Images
from clbench.protocol import Protocol
from clbench.registry import declarations, import_class
from clbench.seeding import seed_everything
from clbench.stream import Source, Stream

SMALL = {  # few steps and samples, where there are more by default
    "vcl": {"test_samples": 2},
    "vcl-c": {"test_samples": 2, "coreset": 4, "coreset_steps": 2},
    "pnn": {"width": 0.2},
    "agem": {"per_class": 4},
    "gem": {"per_class": 4},
}


def colours(scenario: str = "task") -> Stream:
    """Two tasks of two colours each."""
    rng = np.random.default_rng(0)
    labels = np.arange(48) % 4
    colours = rng.integers(0, 256, (4, 3, 1, 1))
    noise = rng.integers(-60, 60, (48, 3, 16, 16))
    images = Images((colours[labels] + noise).clip(0, 255).astype(np.uint8), labels)
    sources = [Source(images, images, c, (0.5,) * 3, (0.25,) * 3) for c in ((0, 1), (2, 3))]
    protocol = Protocol(lr=0.05, momentum=0.0, batch_size=16, epochs=1)
    return Stream(
        sources, name="colours", backbone="alexnet", protocol=protocol, seed=0, scenario=scenario
    )


@pytest.fixture
def stream() -> Stream:
    return colours()


@pytest.mark.parametrize("name", declarations("method"))
def test_two_tasks_of_images(name: str) -> None:
    """In the first scenario that the method declares."""
    declaration = declarations("method")[name]
    method, stream = import_class(declaration), colours(first_scenario(declaration))
    tuned = method.tuned.get("split-cifar100", {})
    fields = {f.name for f in dataclasses.fields(method)}
    values = {n: value for n, value in tuned.items() if n in fields} | SMALL.get(name, {})
    torch.set_num_threads(1)
    seed_everything(0, "init")
    strategy = method(**values).build(stream)
    before = {n: p.detach().clone() for n, p in strategy.model.named_parameters()}
    outputs = []
    for k in range(2):
        seed_everything(0, "task", k)
        curve = strategy.learn(k)
        assert curve is None or all(np.isfinite(epoch["loss"]) for epoch in curve)
        test = stream.tasks[0].test
        with torch.no_grad():
            outputs.append(strategy.model.eval()(test.inputs(), torch.zeros(len(test)).long()))
    moved = [n for n, p in strategy.model.named_parameters() if not torch.equal(p, before[n])]
    assert len(moved) >= 4, moved
    if declarations("method")[name].meta.get("zero_forgetting"):
        assert torch.equal(*outputs)


def test_autocast_and_compilation_reach_the_convolutions(stream: Stream) -> None:
    cast = copy.copy(stream)
    cast.protocol = dataclasses.replace(stream.protocol, autocast=True)
    seed_everything(0, "init")
    strategy = import_class(declarations("method")["finetune"])().build(cast)
    [epoch] = strategy.learn(0) or []
    assert np.isfinite(epoch["loss"])

    net = strategy.model.trunk.eval()
    x, sums = stream.tasks[0].train.inputs(slice(0, 4)), []
    for forward in (net, torch.compile(net, backend="aot_eager")):
        net.zero_grad()
        forward(x).sum().backward()
        sums.append([p.grad.clone() for p in net.parameters()])
    torch.testing.assert_close(*sums)
