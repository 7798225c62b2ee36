"""`--backbone`: ids and labels, a benchmark's own, training on it, resuming, and who refuses it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import clbench.runner
from clbench.build import make_stream as stream_of
from clbench.conformance.trial import first_scenario
from clbench.data import Images
from clbench.errors import UserError
from clbench.grid import cell_of, make_grid
from clbench.loader import TensorLoader
from clbench.memory import of_model
from clbench.networks import ordinary
from clbench.protocol import Protocol
from clbench.record_file import encode, parse
from clbench.registry import declarations, import_class
from clbench.runner import run
from clbench.seeding import seed_everything
from clbench.stream import Source, Stream
from clbench.training import Strategy

NET = """
from torch import nn


def backbone(input_shape):
    channels, height, width = input_shape
    return nn.Sequential(
        nn.Flatten(), nn.Linear(channels * height * width, 12), nn.BatchNorm1d(12), nn.ReLU()
    )
"""
INSIDE = {"hat", "pnn", "packnet", "ucb", "vcl", "vcl-c"}
OWN = {"acl", "acl-joint"}
ORDINARY = sorted(set(declarations("method")) - INSIDE - OWN)


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "my_net.py"
    path.write_text(NET)
    return path


@pytest.fixture
def here(tmp_path, tiny, net, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_part_of_the_id_only_where_it_is_given(net):
    def one(benchmark, **changes):
        return make_grid("finetune", benchmark, [0], changes)[0]

    plain = one("split-mnist-5k")
    assert one("split-mnist-5k", backbone="mlp").id == plain.id  # the benchmark's own
    assert "backbone" not in plain.versioned().protocol
    given = one("split-mnist-5k", backbone="torchvision:resnet18")
    assert given.id != plain.id
    assert given.versioned().protocol["backbone"] == "torchvision:resnet18"
    assert given.labels["protocol"] == "backbone=torchvision:resnet18"
    # where the benchmark has a parameter for it, it is that parameter
    param = one("split-cifar100[backbone=resnet18]")
    assert one("split-cifar100", backbone="resnet18").id == param.id
    assert param.network.name == "resnet18"
    with pytest.raises(UserError, match=r"\[backbone=alexnet\] and --backbone resnet18 name two"):
        one("split-cifar100[backbone=alexnet]", backbone="resnet18")


def test_changed_code_of_a_backbone_is_another_run(net):
    def one():
        return make_grid("finetune", "split-mnist-5k", [0], {"backbone": str(net)})[0]

    before = one()
    assert before.labels["protocol"] == f"backbone={before.network.name}"
    assert before.network.name == f"my-net@{before.network.digest[:12]}"
    net.write_text(NET + "# more\n")
    assert one().id != before.id


def test_a_benchmark_has_its_own_backbone(tiny, net, place, clbench, here):
    text = tiny.read_text()
    for own in ("torchvision:resnet18", "./my_net.py", "resnet18"):
        tiny.write_text(text.replace('title = "Tiny"', f'title = "Tiny"\n    backbone = "{own}"'))
        made = make_grid("finetune", str(tiny), [0], {"epochs": 1})[0]
        assert "backbone" not in made.labels["protocol"]
        stream = stream_of(made, {})
        assert ordinary(stream).trunk.features == {"./my_net.py": 12}.get(
            own, 160 if own == "resnet18" else 512
        )
    # its code changes, and so does the run; what has networks of its own does not care
    tiny.write_text(text.replace('title = "Tiny"', 'title = "Tiny"\n    backbone = "./my_net.py"'))
    ids = [[make_grid(m, str(tiny), [0], {})[0].id for m in ("finetune", "acl")]]
    net.write_text(NET + "# more\n")
    ids += [[make_grid(m, str(tiny), [0], {})[0].id for m in ("finetune", "acl")]]
    assert ids[0][0] != ids[1][0]
    assert ids[0][1] == ids[1][1]
    made = make_grid("finetune", str(tiny), [0], {"epochs": 1})[0]
    assert run(made, place).status == "done"
    for wrong, said in (("resnet34", "Unknown backbone"), ("./no.py", "there is no file")):
        tiny.write_text(text.replace('title = "Tiny"', f'title = "T"\n    backbone = "{wrong}"'))
        result = clbench("run --methods finetune --benchmarks ./tiny.py")
        assert result.code == 2
        assert said in result.err
        assert "tiny.py: backbone" in result.err
        assert "Traceback" not in result.err


def test_what_cannot_be_built_is_said_before_training(clbench, here):
    (here / "bad.py").write_text("def backbone(input_shape):\n    return 3\n")
    for name, said in (
        ("./bad.py", "must return an nn.Module; it returned a int"),
        ("./my_net.py --batch-size 1", "normalises over the batch, so batch_size=1 is too small"),
    ):
        command = f"run --methods finetune --benchmarks ./tiny.py --backbone {name}"
        result = clbench(command)
        assert result.code == 2
        assert said in result.err
        assert not list((here / "results" / "records").glob("*.json"))


def test_a_dry_run_knows_the_models_of_torchvision(clbench, here):
    command = "run --methods finetune --benchmarks ./tiny.py --dry-run --backbone torchvision:"
    wrong = clbench(command + "resnet19")
    assert (wrong.code, wrong.out) == (2, "")
    assert "Unknown torchvision model 'resnet19'. Did you mean 'resnet18'" in wrong.err
    assert clbench(command + "resnet18").code == 0


def test_a_strangers_settings_name_no_file(clbench, here):
    for value in ("./my_net.py", "my_net.py:backbone"):
        (here / "c.toml").write_text(f'backbone = "{value}"\n')
        result = clbench("run --methods finetune --benchmarks ./tiny.py --config c.toml")
        assert result.code == 2
        assert "names the file" in result.err
        assert "name it by --backbone" in result.err


def test_a_record_has_it_and_is_rebuilt(place):
    changes = {"epochs": 1, "backbone": "torchvision:squeezenet1_1"}
    made = make_grid("finetune", "split-mnist-5k", [0], changes)[0]
    record = parse(encode(clbench.runner._fresh_record(made, {})), made.id)
    assert record.protocol == "epochs=1,backbone=torchvision:squeezenet1_1"
    again = cell_of(record)
    assert (again.id, again.network) == (made.id, made.network)


@pytest.fixture(scope="module")
def colours():
    """A function from a backbone to a stream of two tasks of two colours each."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 4
    shades = rng.integers(0, 256, (4, 3, 1, 1))
    noise = rng.integers(-60, 60, (40, 3, 16, 16))
    images = Images((shades[labels] + noise).clip(0, 255).astype(np.uint8), labels)
    sources = [Source(images, images, c, (0.5,) * 3, (0.25,) * 3) for c in ((0, 1), (2, 3))]

    def make(backbone, scenario="task", **changes):
        protocol = Protocol(lr=0.01, batch_size=16, epochs=1).changed(changes)
        settings = {"name": "colours", "seed": 0, "scenario": scenario}
        return Stream(sources, backbone=backbone, protocol=protocol, **settings)

    return make


def learned(name, stream):
    torch.set_num_threads(1)
    seed_everything(0, "init")
    strategy = import_class(declarations("method")[name])().build(stream)
    for k in range(2):
        seed_everything(0, "task", k)
        curve = strategy.learn(k)
        assert curve is None or all(np.isfinite(epoch["loss"]) for epoch in curve)
    return strategy


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_methods_learn_on_resnet18_and_on_a_users_network(name, colours, net):
    # 20 images per task, 17 to train on: the last batch of 16 takes the one that is left
    scenario = first_scenario(declarations("method")[name])
    strategy = learned(name, colours("torchvision:resnet18", scenario))
    assert strategy.memory().architecture == of_model(strategy.model)
    assert of_model(strategy.model) == 4 * (11_176_512 + 2 * 2 * 513)
    own = learned(name, colours(str(net), scenario, epochs=6, lr=0.05))
    own.accuracy(1)
    assert (own.tally.accuracy_given if scenario == "class" else own.tally.accuracy) > 75


@pytest.mark.parametrize("name", sorted(INSIDE | OWN))
def test_methods_that_need_another_network_say_so(name, cell, place, net):
    for backbone in ("torchvision:resnet18", str(net)):
        with pytest.raises(UserError) as caught:
            run(cell(name, backbone=backbone), place)
        said = str(caught.value)
        reason = "it has a network of its own" if name in OWN else "it can learn with mlp or alexn"
        assert reason in said
        assert ("my-net@" if backbone == str(net) else backbone) in said


def test_a_network_with_batch_norm_resumes_bit_for_bit(cell, place, net, monkeypatch):
    made = cell("ewc", backbone=str(net), epochs=2)
    whole = run(made, place)
    other = type(place)(place.out.parent / "other", place.data_root)

    learn, calls = Strategy.learn, []

    def once(self, k):
        calls.append(k)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return learn(self, k)

    monkeypatch.setattr(Strategy, "learn", once)
    with pytest.raises(KeyboardInterrupt):
        run(made, other)
    again = run(made, other)
    assert calls == [0, 1, 1, 2]
    assert again.R == whole.R
    assert [e.valid_loss for e in again.curve] == [e.valid_loss for e in whole.curve]


def test_the_best_epochs_running_means_are_restored_too(colours, net):
    stream = colours(str(net), epochs=3)
    strategy = Strategy(model=ordinary(stream), stream=stream)
    kept, losses = [], iter([1.0, 2.0, 3.0])

    def validate():
        kept.append({k: v.clone() for k, v in strategy.model.state_dict().items()})
        return 50.0, next(losses)

    strategy.validate = validate
    strategy.learn(0)
    now = strategy.model.state_dict()
    assert any("running_mean" in name for name in now)
    assert all(torch.equal(now[name], value) for name, value in kept[0].items())
    assert not torch.equal(
        kept[0]["trunk.network.2.running_mean"], kept[2]["trunk.network.2.running_mean"]
    )


@pytest.mark.parametrize(
    ("n", "sizes"),
    [(17, [17]), (33, [16, 17]), (39, [16, 23]), (40, [16, 16, 8]), (32, [16, 16]), (1, [1])],
)
def test_few_samples_that_are_left_join_the_batch_before(colours, n, sizes):
    split = colours("mlp").tasks[0].train
    rows = torch.arange(n) % len(split)
    some = replace(split, rows=split.rows[rows], labels=split.labels[rows])
    joined = TensorLoader([some], 16, least=8)
    assert [len(batch[1]) for batch in joined] == sizes
    assert len(joined) == len(sizes)
    assert [len(batch[1]) for batch in TensorLoader([some], 4, least=8)][-1] == min(n, 4 + n % 4)
    plain = TensorLoader([some], 16)
    assert sum(len(batch[1]) for batch in plain) == n
    assert len(plain) == len(list(plain)) == -(-n // 16)
