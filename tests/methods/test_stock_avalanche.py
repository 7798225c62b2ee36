"""The promise to Avalanche's users: the plugins work in stock strategies on stock benchmarks."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from avalanche.benchmarks import benchmark_from_datasets, with_classes_timeline, with_task_labels
from avalanche.benchmarks.utils import _make_taskaware_classification_dataset
from avalanche.models import MTSimpleMLP
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.supervised import Naive
from torch.utils.data import TensorDataset

from clbench.methods.agem import AGEMPlugin
from clbench.methods.derpp import DERPPPlugin
from clbench.methods.er_res import ReservoirReplayPlugin
from clbench.methods.ewc import EWCPlugin
from clbench.methods.lwf import LwFPlugin
from clbench.methods.mas import MASPlugin
from clbench.networks import MLP, MultiHead

TASKS = 3


def benchmark() -> Any:
    """Three two-way tasks, made by Avalanche's own functions; nothing of clbench is in it."""
    g = torch.Generator().manual_seed(0)
    streams: dict[str, list[Any]] = {"train": [], "test": []}
    patterns = torch.randn(2 * TASKS, 16, generator=g)
    for part, n in (("train", 40), ("test", 30)):
        for task in range(TASKS):
            y = torch.arange(n) % 2
            x = patterns[2 * task + y] + 0.3 * torch.randn(n, 16, generator=g)
            data = TensorDataset(x, y)
            data.targets = y.tolist()  # type: ignore[attr-defined]
            streams[part].append(_make_taskaware_classification_dataset(data, task_labels=task))
    return with_classes_timeline(with_task_labels(benchmark_from_datasets(**streams)))


def ewc(plugin: Any) -> None:
    assert sum(float(w.sum()) for w in plugin.weight.values()) > 0
    assert any(part in name for name in plugin.weight for part in ("classifiers.2", "heads.2"))


def agem(plugin: Any) -> None:
    pairs = list(zip(plugin.buffer.t.tolist(), plugin.buffer.y.tolist(), strict=True))
    assert sorted(pairs) == sorted(4 * [(t, y) for t in range(TASKS) for y in range(2)])


def reservoir(plugin: Any) -> None:
    assert plugin.buffer.offered == 3 * 40 * TASKS
    assert set(plugin.buffer.t.tolist()) == {0, 1, 2}


def lwf(plugin: Any) -> None:
    assert dict(plugin.lwf.prev_classes_by_task) == {t: {0, 1} for t in range(TASKS)}


def avalanches() -> Any:
    model = MTSimpleMLP(input_size=16, hidden_size=32)
    model.classifier.masking = False  # Avalanche 0.6's masking fails on its own classes timeline
    return model


def ours() -> MultiHead:
    return MultiHead(MLP((16,), width=32), [2] * TASKS)


@pytest.mark.parametrize("network", [avalanches, ours])
@pytest.mark.parametrize(
    ("make", "look"),
    [
        (lambda: EWCPlugin(strength=100.0), ewc),
        (lambda: AGEMPlugin(per_class=4, reference_batch=8), agem),
        (lambda: ReservoirReplayPlugin(size=12), reservoir),
        (lambda: MASPlugin(strength=0.1), ewc),
        (lambda: DERPPPlugin(size=12, width=2), reservoir),
        (lambda: LwFPlugin(), lwf),
    ],
    ids=["ewc", "agem", "er-res", "mas", "derpp", "lwf"],
)
def test_the_plugin_works_in_stock_naive(
    make: Callable[[], Any], look: Callable[[Any], None], network: Callable[[], Any]
) -> None:
    torch.manual_seed(0)
    made, plugin, model = benchmark(), make(), network()
    assert not any(hasattr(e.dataset, "split") for e in made.train_stream)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No loggers specified")
        evaluator = EvaluationPlugin()
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=10,
        train_epochs=3,
        plugins=[plugin],
        evaluator=evaluator,
    )
    for experience in made.train_stream:
        strategy.train(experience)
    look(plugin)
    model.eval()
    for task, experience in enumerate(made.test_stream):
        x = torch.stack([experience.dataset[i][0] for i in range(30)])
        right = model(x, task).argmax(1) == torch.arange(30) % 2
        assert right.float().mean() > 0.8
