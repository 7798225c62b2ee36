"""NCM: means of features when a task ends, and the nearest of them in tests."""

import pytest
import torch
from one_head import built, features, learn, parameters
from torch import Tensor

from clbench.conformance import small_stream
from clbench.conformance.trial import equal_weights
from clbench.methods.finetune import FineTune
from clbench.methods.ncm import NCM


def unit(z: Tensor) -> Tensor:
    return z / z.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("scenario", ["task", "class", "domain"])
def test_a_test_takes_the_nearest_of_the_means_of_their_time(scenario: str) -> None:
    strategy = built(NCM(), small_stream(2, scenario))
    tasks = strategy.stream.tasks
    sums: dict[tuple[int, int], list[Tensor]] = {}
    for k, task in enumerate(tasks):
        learn(strategy, k + 1, k)
        p = parameters(strategy.model)
        p = p[:4] + p[-2:]  # the trunk; a head, which does not matter
        with torch.no_grad():
            z = unit(features(p, task.train.inputs()))
        for row, label in zip(z, task.train.labels.tolist(), strict=True):
            sums.setdefault((task.train.label, label), []).append(row)
        for i, tested in enumerate(tasks[: k + 1]):
            known = [(label, rows) for (t, label), rows in sums.items() if t == tested.test.label]
            means = unit(torch.stack([torch.stack(rows).mean(0) for _, rows in known]))
            with torch.no_grad():
                gaps = torch.cdist(unit(features(p, tested.test.inputs())), means)
            nearest = torch.tensor([label for label, _ in known])[gaps.argmin(1)]
            right = (nearest == tested.test.labels).float().mean()
            assert strategy.accuracy(i) == pytest.approx(100 * float(right))
    assert strategy.memory().auxiliary == 4 * 256 * len(sums)
    assert strategy.memory().replay == 0


def test_it_trains_as_finetuning_does() -> None:
    mine, plain = (learn(built(method, small_stream(2, "class"))) for method in (NCM(), FineTune()))
    assert equal_weights(mine, plain)
    assert mine.schedule.curve[-1]["valid_loss"] == plain.schedule.curve[-1]["valid_loss"]
