"""VCL, VCL-C and UCB with one head: new classes start from the prior, at the full rate."""

from typing import Any

import pytest
import torch
from one_head import built, learn, stream_of
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from clbench.methods.ucb import UCB
from clbench.methods.vcl import VCL
from clbench.methods.vcl_c import VCLC
from clbench.networks.bayes import add_gradient

HEAD = ("heads.0.weight", "heads.0.bias")


def in_its_second_task(method: Any, scenario: str) -> Any:
    """A strategy after one task, as the next begins."""
    strategy = learn(built(method, stream_of(scenario, epochs=1)), tasks=1)
    strategy.experience = strategy.stream.avalanche.train_stream[1]
    strategy.model.train()
    strategy.model.adaptation(strategy.experience)
    strategy.plugins[1].before_training_exp(strategy)
    return strategy


@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_the_prior_of_a_new_class_is_standard_normal(scenario: str) -> None:
    strategy = in_its_second_task(VCL(), scenario)
    plugin, model = strategy.plugins[1], strategy.model
    prior = dict(plugin.prior)
    known, seen = strategy.stream.seen[:2]
    assert len(prior[HEAD[0]][0]) == known
    torch.manual_seed(0)
    for p in model.parameters():
        p.data += 0.1 * torch.randn_like(p)
        p.grad = torch.zeros_like(p)
    add_gradient(model, plugin.k, plugin.slopes, 1.0)

    divergence = torch.zeros(())
    for name, part in (("heads.0.weight", "weight"), ("heads.0.bias", "bias")):
        mu = getattr(model.heads[0], f"{part}_mu")
        sigma = F.softplus(getattr(model.heads[0], f"{part}_rho"))
        old = Normal(mu[:known], sigma[:known])
        divergence = divergence + kl_divergence(old, Normal(*prior[name])).sum()
        new = Normal(mu[known:seen], sigma[known:seen])
        if seen > known:
            divergence = divergence + kl_divergence(new, Normal(0.0, 1.0)).sum()
    own = list(model.heads[0].parameters())
    expected = torch.autograd.grad(divergence, own)
    torch.testing.assert_close([p.grad for p in own], list(expected), rtol=1e-4, atol=1e-4)
    if scenario == "class":
        assert all(not p.grad[seen:].any() and p.grad[known:seen].all() for p in own)


def test_the_posterior_of_each_task_holds_the_classes_seen() -> None:
    strategy = built(VCL(), stream_of("class", epochs=1))
    for k, seen in enumerate((2, 5, 7)):
        learn(strategy, k + 1, k)
        mu, sigma = strategy.plugins[1].prior[HEAD[0]]
        assert len(mu) == len(sigma) == seen
        assert torch.equal(mu, strategy.model.heads[0].weight_mu[:seen])
        assert strategy.memory().auxiliary == 4 * 2 * (785 * 256 + 257 * 256 + 257 * seen)


@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_ucb_scales_the_rates_of_what_was_learned_before(scenario: str) -> None:
    strategy = in_its_second_task(UCB(), scenario)
    plugin, model = strategy.plugins[1], strategy.model
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    plugin.before_update(strategy)
    known, head = strategy.stream.seen[0], model.heads[0]
    for part in ("weight", "bias"):
        rate, rho = getattr(head, f"{part}_mu").grad, getattr(head, f"{part}_rho")
        assert torch.equal(rate[:known], F.softplus(rho[:known]))
        assert bool((rate[known:] == 1).all())
        assert bool((rho.grad == 1).all())
    layer = model.trunk.layers[1]
    assert torch.equal(layer.weight_mu.grad, F.softplus(layer.weight_rho))


def test_ucb_has_no_complexity_of_classes_to_come() -> None:
    strategy = in_its_second_task(UCB(), "class")
    plugin, model = strategy.plugins[1], strategy.model
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    add_gradient(model, plugin.k, plugin.slopes, 1.0)
    for p in model.heads[0].parameters():
        assert p.grad[:5].all()
        assert not p.grad[5:].any()


@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_a_test_without_its_task_is_fitted_to_all_coresets(scenario: str) -> None:
    method = VCLC(coreset=4, coreset_steps=3, test_samples=0, coreset_lr=0.05)
    strategy = learn(built(method, stream_of(scenario, epochs=1)), tasks=2)
    plugin, model, tasks = strategy.plugins[1], strategy.model, strategy.stream.tasks[:2]
    kept = plugin.kept.columns
    assert (len(kept["y"]), kept["t"].unique().tolist()) == (8, [0])
    assert kept["y"][:4].max() <= 1 + (scenario == "domain")
    fitted, again = plugin.fitted(model, 0), []
    plugin.fitted = lambda *of: again.append(of) or fitted
    for i, task in enumerate(tasks):
        with torch.no_grad():
            right = fitted(task.test.inputs(), 0).argmax(1) == task.test.labels
        assert strategy.accuracy(i) == pytest.approx(100 * float(right.float().mean()))
    assert len(again) == 1  # all tests between two tasks share one copy
    del plugin.fitted
    plugin.kept.columns = {name: column[4:] for name, column in kept.items()}
    other = plugin.fitted(model, 0)
    assert not torch.equal(other.heads[0].weight_mu, fitted.heads[0].weight_mu)
    assert strategy.model is model
