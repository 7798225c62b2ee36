"""`--optimizer`: what is recorded, which methods learn under it, and which refuse it in words."""

import pytest
import torch

from clbench.build import build
from clbench.build import make_stream as stream_of
from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.protocol import Protocol
from clbench.record_file import encode, parse
from clbench.registry import declarations
from clbench.runner import run
from clbench.seeding import seed_everything
from clbench.training.importance import followable

IDS = {
    ("finetune", "split-mnist-5k"): ("7200208a7d38", "e7993025c61a"),
    ("hat", "split-mnist-5k"): ("86b6e17f4121", "effb7c832ff5"),
    ("vcl", "permuted-mnist"): ("261e230ff1f5", "03f7d38581dd"),
    ("agem", "split-cifar100[backbone=resnet18]"): ("cb44b05e5761", "bda022fff63c"),
}
"""Ids of seed 1, and under lr=0.02 and momentum=0.5, from before there were optimizers."""
REFUSING = {"hat", "ucb", "vcl", "vcl-c", "gem", "agem"}
KINDS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


@pytest.mark.parametrize(("method", "benchmark"), IDS)
def test_runs_under_sgd_keep_their_ids(method, benchmark):
    changes = ({}, {"lr": 0.02, "momentum": 0.5})
    ids = tuple(make_grid(method, benchmark, [1], change)[0].id for change in changes)
    assert ids == IDS[method, benchmark]
    named = make_grid(method, benchmark, [1], {"optimizer": "sgd", "backbone": ""})[0]
    assert named.id == ids[0]


def test_every_value_of_adam_is_part_of_the_id_and_momentum_is_not():
    adam = {"optimizer": "adam"}
    changes = [{}, adam, {"optimizer": "adamw"}]
    changes += [adam | {key: 0.5} for key in ("beta1", "beta2", "eps")]
    cells = [make_grid("finetune", "split-mnist-5k", [0], change)[0] for change in changes]
    assert len({cell.id for cell in cells}) == len(cells)
    protocol = cells[1].versioned().protocol
    assert protocol["optimizer"] == "adam"
    assert (protocol["beta1"], protocol["beta2"], protocol["eps"]) == (0.9, 0.999, 1e-8)
    assert "momentum" not in protocol  # the benchmark's own, 0.9, is for SGD
    assert cells[1].labels["protocol"] == "optimizer=adam"
    assert cells[3].labels["protocol"] == "optimizer=adam,beta1=0.5"


def test_a_record_is_rebuilt_with_its_optimizer(cell, place):
    from clbench.grid import cell_of

    made = make_grid("finetune", "split-mnist-5k", [0], {"optimizer": "adamw", "epochs": 1})[0]
    record = parse(encode(run(made, place)), made.id)
    again = cell_of(record)
    assert again.id == made.id
    assert again.spec.protocol.optimizer == "adamw"


@pytest.mark.parametrize("name", KINDS)
def test_each_task_starts_with_a_new_optimizer_of_the_protocol(cell, name):
    own = {} if name == "sgd" else {"beta1": 0.8, "beta2": 0.9, "eps": 1e-6}
    made = cell(optimizer=name, lr=0.01, weight_decay=0.1, epochs=1, **own)
    strategy = build(made, stream_of(made, {}))
    strategy.learn(0)
    first = strategy.optimizer
    strategy.learn(1)
    assert type(strategy.optimizer) is KINDS[name]
    assert strategy.optimizer is not first
    [group] = strategy.optimizer.param_groups
    assert (group["lr"], group["weight_decay"]) == (0.01, 0.1)
    if own:
        assert (group["betas"], group["eps"]) == ((0.8, 0.9), 1e-6)
        steps = [int(state["step"]) for state in strategy.optimizer.state.values()]
        assert set(steps) == {5}  # of one task: 68 samples in batches of 16


def test_the_plateau_schedule_lowers_the_rate_of_adam(cell):
    made = cell(optimizer="adam", lr=0.9, epochs=6, patience=1, lr_min=0.001)
    strategy = build(made, stream_of(made, {}))
    seed_everything(0, "task", 0)
    losses = iter([5.0, 6.0, 7.0, 4.0, 5.0, 6.0])
    strategy.validate = lambda: (50.0, next(losses))
    rates = [round(epoch["lr"], 6) for epoch in strategy.learn(0)]
    assert rates == [0.9, 0.9, 0.3, 0.1, 0.1, 0.033333]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--optimizer adam --momentum 0.9", "momentum=0.9 is for sgd, and the optimizer is adam"),
        ("--beta1 0.5", "beta1=0.5 is for adam or adamw, and the optimizer is sgd"),
        ("--optimizer rmsprop", "--optimizer: optimizer=rmsprop is not one of sgd, adam, adamw"),
        ("--optimizer adam --beta2 1", "--beta2: beta2=1.0 is not a number of at least 0"),
    ],
)
def test_values_that_do_not_go_together_are_a_sentence(clbench, here, flags, said):
    result = clbench(f"run --methods finetune --benchmarks ./tiny.py {flags} --dry-run")
    assert result.code == 2
    assert said in result.err
    assert "Traceback" not in result.err


@pytest.fixture
def here(tmp_path, tiny, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_of_settings_and_a_method_choose_it_too(clbench, here, method_file):
    (here / "c.toml").write_text('optimizer = "adamw"\nlr = 0.001\nbeta1 = 0.8\nepochs = 1\n')
    ran = clbench("run --methods finetune --benchmarks ./tiny.py --workers 1 --config c.toml")
    assert ran.code == 0
    assert "changed by the user: lr=0.001,epochs=1,optimizer=adamw,beta1=0.8" in ran.out.replace(
        "\n", " "
    )
    assert "momentum" not in ran.out
    path = method_file(
        "adaptive",
        """
        from clbench import Method

        class Adaptive(Method):
            protocol = {"optimizer": "adam", "lr": 0.002}
            tuned = {"split-mnist-5k": {"beta2": 0.99}}
        """,
    )
    spec = make_grid(str(path), "split-mnist-5k", [0], {})[0].spec
    assert (spec.protocol.optimizer, spec.protocol.beta2) == ("adam", 0.99)
    back = make_grid(str(path), "split-mnist-5k", [0], {"optimizer": "sgd"})[0]
    assert back.spec.protocol.momentum == 0.9  # the benchmark's, for SGD
    assert back.labels["protocol"] == "optimizer=sgd"


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
@pytest.mark.parametrize("method", sorted(declarations("method")))
def test_every_method_learns_under_it_or_refuses_it_in_words(cell, place, method, optimizer):
    rate = "[shared_rate=1]" if method.startswith("acl") else ""  # the default is refused, below
    made = cell(method + rate, optimizer=optimizer, lr=0.002, epochs=1)
    if method in REFUSING:
        with pytest.raises(UserError, match=f"optimizer={optimizer} must stay at sgd: .*[.]"):
            run(made, place)
    else:
        assert run(made, place).status == "done"


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
@pytest.mark.parametrize(
    ("method", "decay"), [("pnn[width=0.1]", 0.1), ("packnet", 0.0), ("acl[preset=frozen]", 0.1)]
)
def test_what_is_frozen_stays_frozen_bit_for_bit(cell, method, decay, optimizer):
    """Adam moves a weight that has moments, or a weight decay, without a gradient."""
    made = cell(method, optimizer=optimizer, lr=0.01, weight_decay=decay, epochs=2)
    stream = stream_of(made, {})
    strategy = build(made, stream)
    test = stream.tasks[0].test
    outputs = []
    for k in range(len(stream)):
        seed_everything(0, "task", k)
        strategy.learn(k)
        with torch.no_grad():
            outputs.append(strategy.model.eval()(test.inputs(), torch.zeros(len(test)).long()))
    assert all(torch.equal(outputs[0], later) for later in outputs[1:])


def test_a_scaled_gradient_of_s_is_refused_because_adam_undoes_it(cell, place):
    with pytest.raises(UserError, match=r"shared_rate=0.5 scales the gradient of S, and Adam"):
        run(cell("acl[shared_rate=0.5]", optimizer="adam"), place)
    assert run(cell("acl[shared_rate=0.5]", epochs=1), place).status == "done"


def test_a_steep_penalty_is_lowered_for_descent_and_not_for_adam():
    weight, theta = torch.tensor([1.0, 1e9]), [torch.nn.Parameter(torch.zeros(2))]
    sgd, adam = torch.optim.SGD(theta, lr=0.1), torch.optim.Adam(theta, lr=0.1)
    assert followable(weight, 1.0, sgd).tolist() == [1.0, 10.0]
    assert torch.equal(followable(weight, 1.0, adam), weight)


def test_why_gem_refuses_it():
    """A step of Adam along a projected gradient can raise the loss that the projection protects."""
    from clbench.methods.agem import project

    weights = torch.nn.Parameter(torch.zeros(2))
    memory = torch.tensor([1.0, -0.1])  # gradient of the loss on the memory
    weights.grad = torch.tensor([-1.1, -0.9])
    project([weights], [memory])
    step = -torch.sign(weights.grad)  # Adam's first step
    assert abs(float(memory @ weights.grad)) < 1e-6
    assert float(memory @ step) > 0


def test_a_protocol_in_python_is_checked_too():
    with pytest.raises(UserError, match=r"momentum=0.9 is for sgd"):
        Protocol(optimizer="adam").changed({"momentum": 0.9})


def test_rows_of_two_optimizers_name_what_each_of_them_has():
    from clbench.report.rows import differences
    from clbench.report.runs import Facts

    sgd = Facts({"protocol.lr": "0.03", "protocol.momentum": "0.9"})
    adam = Facts({"protocol.lr": "0.03", "protocol.optimizer": "adam", "protocol.beta1": "0.9"})
    assert list(differences(sgd, [adam]).values()) == ["momentum=0.9", "optimizer=sgd"]
    assert list(differences(adam, [sgd]).values()) == ["beta1=0.9", "optimizer=adam"]
