"""DER++: the three parts of the loss, and outputs kept with their samples."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from avalanche.models import MTSimpleMLP
from avalanche.training.supervised import DER
from test_stock_avalanche import benchmark
from torch.nn import functional as F

from clbench.methods.derpp import DERPP, DERPPPlugin, distance
from clbench.stream import Stream


def test_the_loss_is_that_of_the_formula(make_stream: Callable[..., Stream]) -> None:
    torch.manual_seed(0)
    stream = make_stream(epochs=1)
    strategy: Any = DERPP(alpha=0.3, beta=0.7, replay_batch=4).build(stream)
    strategy.learn(0)
    strategy.learn(1)
    plugin, model = strategy.plugins[1], strategy.model
    assert set(plugin.buffer.columns["t"].tolist()) == {0, 1}
    now = torch.tensor(2.0)
    strategy.loss = now
    torch.manual_seed(5)
    plugin.before_backward(strategy)
    torch.manual_seed(5)
    x, _, t, z = plugin.buffer.draw(4)
    x2, y2, t2, _ = plugin.buffer.draw(4)
    with torch.no_grad():
        outs = [model(x[i : i + 1], int(t[i])) for i in range(4)]
        dark = sum((out - z[i]).square().mean() for i, out in enumerate(outs)) / 4
        labelled = torch.cat([model(x2[i : i + 1], int(t2[i])) for i in range(4)])
    expected = now + 0.3 * dark + 0.7 * F.cross_entropy(labelled, y2)
    torch.testing.assert_close(strategy.loss.detach(), expected)


def test_kept_outputs_are_those_of_the_own_head_when_offered(
    make_stream: Callable[..., Stream],
) -> None:
    torch.manual_seed(0)
    strategy: Any = DERPP(per_class=100).build(make_stream(epochs=1, lr=1e-30))
    for k in range(3):
        strategy.learn(k)
    x, t, z = (strategy.plugins[1].buffer.columns[c] for c in "xtz")
    assert len(z) == 3 * 68  # all that was seen
    with torch.no_grad():
        torch.testing.assert_close(z, strategy.model(x, t))  # at this rate nothing has moved


def test_the_memory_counts_images_and_outputs(make_stream: Callable[..., Stream]) -> None:
    strategy: Any = DERPP(per_class=3).build(make_stream(epochs=1))
    strategy.learn(0)
    assert strategy.memory().replay == 18 * (36 + 2) * 4


def test_heads_of_other_widths_are_compared_where_they_have_outputs() -> None:
    out = torch.tensor([[1.0, 2.0, -torch.inf], [1.0, 2.0, 3.0]], requires_grad=True)
    z = torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 5.0, 0.0]])
    loss = distance(out, z)
    assert float(loss.detach()) == pytest.approx((1 + 4 + 4) / 5)
    loss.backward()  # type: ignore[no-untyped-call]
    assert out.grad is not None
    assert bool(out.grad.isfinite().all())


@pytest.mark.filterwarnings("ignore:No loggers specified")
def test_avalanches_own_has_no_heads() -> None:
    """Why it is not used. If this fails, Avalanche may have mended it."""
    model = MTSimpleMLP(input_size=16, hidden_size=32)
    model.classifier.masking = False
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    strategy = DER(model=model, optimizer=optimizer, train_mb_size=10, evaluator=None)
    with pytest.raises(TypeError, match="task_labels"):
        strategy.train(benchmark().train_stream[0])


def test_an_empty_reservoir_adds_nothing() -> None:
    class Now:
        loss = torch.tensor(2.0)

    DERPPPlugin(size=4, width=2, alpha=0.1, beta=0.5).before_backward(Now)
    assert Now.loss == 2.0
