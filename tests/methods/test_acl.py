"""ACL: its losses against values computed by hand, its parts, its memory, and where it runs."""

import gzip
import io
import os
import shutil
import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from clbench.conformance import small_stream
from clbench.declare import cannot_forget
from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.methods._acl_net import ACLNet, Discriminator
from clbench.methods._acl_plugin import ACLPlugin
from clbench.methods.acl import ACL
from clbench.registry import declarations
from clbench.runner import run
from clbench.seeding import seed_everything

SHAPE = (1, 28, 28)


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def values(method: str, benchmark: str) -> list[dict[str, Any]]:
    """All parameters of the methods in `method`, as a run on the benchmark has them."""
    return [cell.spec.method_params for cell in make_grid(method, benchmark, [0], {})]


def test_presets_change_no_parameter_count():
    names = ("balanced", "frozen", "paper", "official")
    presets = values(",".join(f"acl[preset={name}]" for name in names), "split-mnist")
    assert len({str(params | {"preset": ""}) for params in presets}) == len(names)
    memories = [ACL(**params).build(small_stream()).memory() for params in presets]
    assert len({memory.architecture for memory in memories}) == 1
    discriminator = Discriminator(64, len(small_stream()) + 1)
    assert {memory.auxiliary for memory in memories} == {4 * parameters(discriminator)}


def test_without_s_there_is_no_discriminator():
    assert ACLPlugin(3, ACL()).adversary is not None
    assert ACLPlugin(3, ACL(shared=False)).adversary is None  # there is no z_S for it to read
    assert ACLPlugin(3, ACL(discriminator=False)).adversary is None


# ---- adversary ----


def adversarial_gradients(reversal: str) -> tuple[dict[str, torch.Tensor], ACLPlugin]:
    """Gradients of S from L_adv alone."""
    torch.manual_seed(0)
    net = ACLNet(SHAPE, [2] * 3, ACL())
    plugin = ACLPlugin(3, ACL(task=0.0, adv=1.0, diff=0.0, reversal=reversal))
    x, tasks = torch.randn(8, *SHAPE), torch.full((8,), 1)
    net.eval()  # no dropout, so that both calls see the same features
    net.training = True
    net(x, tasks)
    strategy = SimpleNamespace(model=net, mb_task_id=tasks, mb_x=x)
    plugin._total(strategy, torch.zeros(())).backward()
    return {n: p.grad for n, p in net.shared.named_parameters()}, plugin


def test_s_climbs_the_loss_that_d_descends_and_d_is_untouched():
    reversed_, plugin = adversarial_gradients("always")
    plain, _ = adversarial_gradients("never")
    for name, gradient in plain.items():
        assert gradient.abs().sum() > 0
        assert torch.equal(reversed_[name], -gradient)
    assert all(p.grad is None for p in plugin.adversary.network.parameters())


def test_public_code_has_no_reversal_without_the_difference_loss():
    accident, _ = adversarial_gradients("with-diff")
    plain, _ = adversarial_gradients("never")
    assert all(torch.equal(accident[name], plain[name]) for name in plain)


# ---- training ----


def learned(tasks: int = 3, **params: object):
    stream = small_stream(epochs=2)
    seed_everything(0, "init")
    strategy = ACL(**params).build(stream)
    for k in range(tasks):
        seed_everything(0, "task", k)
        strategy.learn(k)
    return strategy


def test_private_parts_and_heads_of_learned_tasks_do_not_move_and_s_does():
    strategy = learned(tasks=1, shared_rate=1.0)
    net = strategy.model
    before = {
        n: p.clone()
        for part in (net.private[0], net.heads[0])
        for n, p in part.named_parameters(prefix=str(id(part)))
    }
    shared = [p.clone() for p in net.shared.parameters()]
    for k in (1, 2):
        strategy.learn(k)
    for part in (net.private[0], net.heads[0]):
        for n, p in part.named_parameters(prefix=str(id(part))):
            assert torch.equal(p, before[n])
            assert all(p is not q for g in strategy.optimizer.param_groups for q in g["params"])
    assert any(not torch.equal(p, q) for p, q in zip(net.shared.parameters(), shared, strict=True))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_shared_rate_scales_the_whole_step_of_s(weight_decay):
    torch.manual_seed(0)
    net = ACLNet(SHAPE, [2] * 2, ACL())
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0, weight_decay=weight_decay)
    plugin = ACLPlugin(2, ACL(shared_rate=0.25))
    plugin.done = [0]
    p = next(net.shared.parameters())
    old = p.detach().clone()
    p.grad = gradient = torch.randn_like(p)
    expected = old - 0.25 * (gradient + weight_decay * old)
    plugin.before_update(SimpleNamespace(model=net, optimizer=optimizer))
    optimizer.step()
    torch.testing.assert_close(p.detach(), expected)


def test_a_frozen_s_is_a_fixed_function():
    strategy = learned(tasks=1, shared_rate=0.0)
    state = {n: p.clone() for n, p in strategy.model.shared.named_parameters()}
    strategy.learn(1)
    assert not strategy.model.train().shared.training
    assert all(torch.equal(p, state[n]) for n, p in strategy.model.shared.named_parameters())


def joined_batch(replay_private: str):
    """The model's output on a batch with replayed samples of task 0, at task 1."""
    params = {"per_class": 3, "replay": "equal", "replay_private": replay_private}
    strategy = learned(tasks=1, **params, branch_drop=0.0)
    strategy.model.eval()  # no dropout, so that passes can be compared
    plugin = strategy.plugins[1]
    plugin.k = 1
    new = strategy.stream.tasks[1].train
    strategy.mbatch = [new.inputs(slice(0, 6)), new.labels[:6], torch.ones(6, dtype=torch.long)]
    plugin.before_training_iteration(strategy)
    x, y, t = strategy.mbatch
    return strategy.model, x, y, t


def test_replayed_samples_go_through_their_own_private_part_and_head():
    model, x, _, t = joined_batch("own")
    assert t.tolist() == [1] * 6 + [0] * 6
    with torch.no_grad():
        out = model(x, t)
        own = model.classify(model.shared(x[6:]), model.private[0](x[6:]), 0)
    torch.testing.assert_close(out[6:, :2], own)
    torch.testing.assert_close(model(x[6:], 0), own)  # the very function that is tested


def test_public_code_replays_through_the_current_private_part():
    model, x, _, t = joined_batch("current")
    with torch.no_grad():
        out = model(x, t)
        own = model.classify(model.shared(x[6:]), model.private[0](x[6:]), 0)
        current = model.classify(model.shared(x[6:]), model.private[1](x[6:]), 0)
    torch.testing.assert_close(out[6:, :2], current)
    assert not torch.allclose(out[6:, :2], own)


@pytest.mark.parametrize("replay", ["union", "equal"])
def test_replayed_samples_per_epoch(replay: str):
    strategy = learned(tasks=2, per_class=3, replay=replay)
    new = len(strategy.stream.tasks[2].train)
    kept, size = 15, strategy.train_mb_size
    batches = -(-new // size)
    replayed = kept if replay == "union" else min(kept, size) * (batches - 1) + (new % size or size)
    assert {epoch["samples"] for epoch in strategy.learn(2)} == {new + replayed}


def test_replay_where_nothing_that_sees_it_learns_is_refused():
    stream = small_stream()
    for params in ({"shared_rate": 0.0}, {"shared": False}, {"preset": "frozen"}):
        with pytest.raises(UserError, match=r"per_class=2 would do nothing: .* frozen P and head"):
            ACL(per_class=2, **params).build(stream)
    ACL(per_class=2).build(stream)
    # the public code's replay teaches the current P
    ACL(per_class=2, shared_rate=0.0, replay_private="current").build(stream)


@pytest.mark.parametrize("params", [{"shared_rate": 0.0}, {"shared": False}, {}], ids=str)
def test_nothing_is_forgotten_where_that_is_declared(params):
    strategy = learned(tasks=1, **params)
    test = strategy.stream.tasks[0].test
    outputs = []
    for k in (1, 2, 3):
        with torch.no_grad():
            outputs.append(strategy.model.eval()(test.inputs(), 0))
        if k < 3:
            strategy.learn(k)
    kept = all(torch.equal(out, outputs[0]) for out in outputs)
    declaration = declarations("method")["acl"]
    assert cannot_forget(declaration.meta, declaration.defaults | params) == bool(params) == kept


@pytest.mark.parametrize(("spec", "zero"), [("acl", False), ("acl[preset=frozen]", True)])
def test_the_record_says_whether_its_run_can_forget(spec, zero, cell, place):
    assert run(cell(spec, epochs=1), place).zero_forgetting == zero


def test_the_default_trains_every_part_in_every_task():
    """Algorithm 1: S, P^k and p^k learn in each task, and so does D."""
    for benchmark in ("split-mnist", "permuted-mnist", "split-cifar100", "five-datasets"):
        [params] = values("acl", benchmark)
        assert params["shared_rate"] > 0, benchmark
        assert params["adv"] > 0, benchmark
        assert params["diff"] > 0, benchmark
    strategy = learned(tasks=1)
    net, d = strategy.model, strategy.plugins[1].adversary.network
    for k in (1, 2):
        parts = {"S": net.shared, "P": net.private[k], "p": net.heads[k], "D": d}
        before = {name: [p.clone() for p in part.parameters()] for name, part in parts.items()}
        strategy.learn(k)
        for name, part in parts.items():
            assert not any(map(torch.equal, part.parameters(), before[name])), (name, k)


def test_rates_of_data_sets_in_color():
    stream = small_stream()
    with pytest.raises(UserError, match=r"color_rate=0\.1 needs cifar10 or svhn among its tasks"):
        ACL(color_rate=0.1).build(stream)
    task = stream.tasks[1]
    stream.tasks[1] = replace(task, title="svhn")
    strategy = ACL(color_rate=0.1).build(stream)
    rates = []
    for k in range(3):
        curve = strategy.learn(k)
        d_lr = strategy.plugins[1].adversary.optimizer.param_groups[0]["lr"]
        rates.append((curve[0]["lr"], d_lr))
    assert rates == [(0.05, 0.001), (pytest.approx(0.005), pytest.approx(1e-4)), (0.05, 0.001)]


def test_memory_holds_so_many_of_each_class_with_their_labels():
    strategy = learned(tasks=2, per_class=3)
    buffer = strategy.plugins[1].buffer
    pairs = sorted(zip(buffer.columns["t"].tolist(), buffer.columns["y"].tolist(), strict=True))
    assert pairs == sorted([(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)] * 3)
    for x, y, t in zip(buffer.columns["x"], buffer.columns["y"], buffer.columns["t"], strict=True):
        train = strategy.stream.tasks[int(t)].train
        same = (train.inputs() == x).flatten(1).all(1)
        assert train.labels[same].tolist() == [int(y)]
    assert strategy.memory().replay == 15 * 784 * 4


def ablation() -> list[dict[str, Any]]:
    """The parameters of every row of the paper's ablation table, on 5-Split MNIST's sizes."""
    study = tomllib.loads((files("clbench.studies") / "table-ablation.toml").read_text())
    return values(study["grid"][0]["methods"], "split-mnist")


PARTS = ("shared", "private", "discriminator", "diff", "per_class")


@pytest.mark.parametrize("params", ablation(), ids=lambda p: ",".join(n for n in PARTS if p[n]))
def test_every_row_of_the_ablation_table_trains(params):
    strategy = learned(tasks=2, **params)
    net, plugin = strategy.model, strategy.plugins[1]
    shared, private, discriminator, diff, per_class = (bool(params[name]) for name in PARTS)
    assert (net.shared is not None) == shared
    assert len(net.private) == 3 * private
    assert (plugin.adversary is not None) == (discriminator and shared)
    assert (plugin.method.diff > 0) == diff
    assert len(plugin.buffer) == 5 * per_class  # one sample of each class of two tasks
    s, p = 148_639, 50_240
    heads = sum(parameters(h) for h in net.heads)
    assert parameters(net) == s * shared + 3 * p * private + heads
    assert net.heads[0][0].in_features == 64 * (shared + private)


def test_the_ablation_table_has_eleven_different_rows():
    rows = {tuple(bool(params[name]) for name in PARTS) for params in ablation()}
    assert len(rows) == len(ablation()) == 11


@pytest.mark.parametrize(
    "params",
    [
        {"per_class": 2, "shared_rate": 1.0},
        {"shared_rate": 0.0},
        {"shared_rate": 0.1, "per_class": 1, "replay": "equal"},
        {"fresh_discriminator": True, "shared_steps": 2, "two_passes": True, "valid_total": True},
        {"d_patience": 1, "fresh_momentum": True},
    ],
    ids=str,
)
def test_resume_is_exact_with_d_its_optimizer_and_the_memory(params):
    whole = learned(tasks=3, **params)
    half = learned(tasks=1, **params)
    file = io.BytesIO()
    torch.save(half.state_dict(), file)
    file.seek(0)
    seed_everything(0, "init")
    again = ACL(**params).build(small_stream(epochs=2))
    again.load_state_dict(torch.load(file, weights_only=True))
    for k in (1, 2):
        seed_everything(0, "task", k)
        again.learn(k)
    for a, b in (
        (whole.model, again.model),
        (whole.plugins[1].adversary.network, again.plugins[1].adversary.network),
    ):
        for (name, p), q in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
            assert torch.equal(p, q), name
    assert torch.equal(whole.plugins[1].buffer.columns["x"], again.plugins[1].buffer.columns["x"])


def test_diagnostics_tell_a_live_s_from_a_dead_one():
    strategy = learned(tasks=3)
    found = strategy.diagnostics()
    assert set(found["without"]) == {"1", "2", "3"}
    as_it_is = [strategy.accuracy(i) for i in range(3)]
    assert [found["without"][str(i + 1)]["nothing"] for i in range(3)] == pytest.approx(as_it_is)
    assert found["shared_spread"] > 0.1
    assert found["shared_dead"] == 0
    for p in strategy.model.shared.parameters():
        nn.init.zeros_(p)
    dead = strategy.diagnostics()
    assert dead["shared_spread"] == 0
    assert dead["shared_dead"] == 1
    for row in dead["without"].values():
        assert row["nothing"] == row["shared_shuffled"]


def test_the_cost_of_s_is_known_after_the_last_task():
    strategy = learned(tasks=2)
    assert "shared_cost" not in strategy.diagnostics()
    strategy.learn(2)
    found = strategy.diagnostics()
    rows = found["without"].values()
    costs = [
        sum(row["nothing"] - row[variant] for row in rows) / 3
        for variant in ("shared_zeroed", "shared_shuffled")
    ]
    assert found["shared_cost"] == pytest.approx(max(costs))
    assert costs[0] != costs[1]
    assert ACL.lays_open["shared_cost"]["below"] < found["shared_cost"]


@pytest.mark.parametrize("branch", ["shared", "private"])
def test_a_branch_that_is_off_is_not_laid_open(branch):
    strategy = learned(tasks=3, **{branch: False})
    found = strategy.diagnostics()
    others = [*found, *found["without"]["1"]]
    assert not [name for name in others if name.startswith(branch)]
    assert [name for name in others if name.endswith("_zeroed")]
    widths = {"S": 64 * (branch != "shared"), "P": 64 * (branch != "private")}
    spaces = strategy.model.spaces(torch.randn(4, *SHAPE), 0)
    assert {name: z.shape[1] for name, z in spaces.items()} == widths


def test_all_diagnostics_are_declared():
    declared = ACL.lays_open
    assert set(learned(tasks=3).diagnostics()) == {
        key for key, how in declared.items() if how["kind"] != "spaces"
    }
    assert declared["spaces"]["names"] == ["S", "P"]


# ---- in stock Avalanche ----


def real_mnist() -> Path:
    for folder in (os.environ.get("CLBENCH_DATA"), Path(__file__).parents[3] / "shared" / "data"):
        if folder and (Path(folder) / "MNIST" / "raw").is_dir():
            return Path(folder) / "MNIST" / "raw"
    pytest.skip("no real MNIST: set CLBENCH_DATA to a folder that has it")


def test_plugin_and_network_run_in_stock_naive_on_stock_split_mnist(tmp_path):
    from avalanche.benchmarks.classic import SplitMNIST
    from avalanche.training.plugins import EvaluationPlugin
    from avalanche.training.supervised import Naive

    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for packed in real_mnist().glob("*.gz"):
        with gzip.open(packed) as source, (raw / packed.stem).open("wb") as target:
            shutil.copyfileobj(source, target)
    benchmark = SplitMNIST(5, return_task_id=True, dataset_root=tmp_path, seed=0)
    torch.manual_seed(0)
    method = ACL(features="norm", per_class=1, shared_rate=0.1)
    net = ACLNet(SHAPE, [10] * 5, method)
    plugin = ACLPlugin(5, method)
    with pytest.warns(UserWarning, match="No loggers"):
        evaluator = EvaluationPlugin()
    strategy = Naive(
        model=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9),
        train_mb_size=64,
        train_epochs=1,
        eval_mb_size=1000,
        plugins=[plugin],
        evaluator=evaluator,
    )
    every_20th = [range(0, len(e.dataset), 20) for e in benchmark.train_stream][:2]
    small = [benchmark.train_stream[k].dataset.subset(rows) for k, rows in enumerate(every_20th)]
    old = None
    for experience, dataset in zip(benchmark.train_stream, small, strict=False):
        experience._dataset = dataset
        strategy.train(experience)
        if old is None:
            old = [p.clone() for p in net.private[0].parameters()]
    assert all(torch.equal(p, q) for p, q in zip(net.private[0].parameters(), old, strict=True))
    assert len(plugin.buffer) == 4
    net.eval()
    for experience in list(benchmark.test_stream)[:2]:
        x, y, t = zip(*(experience.dataset[i] for i in range(300)), strict=True)
        with torch.no_grad():
            out = net(torch.stack(x), torch.tensor(t))
        assert float((out.argmax(1) == torch.tensor(y)).float().mean()) > 0.8
