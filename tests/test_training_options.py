"""`--autocast`, `--compile`, `--torch-dropout` and batches on a device: what is off by default."""

import pytest
import torch

from clbench.build import build
from clbench.build import make_stream as stream_of
from clbench.loader import TensorLoader
from clbench.networks import MLP
from clbench.networks.dropout import Dropout
from clbench.registry import declarations
from clbench.runner import run
from clbench.training.importance import empirical_fisher


def test_what_is_off_leaves_the_id_of_a_run_as_it_was(cell):
    plain, off = cell(), cell(autocast=False, compile=False)
    assert plain.id == off.id
    assert "autocast" not in plain.versioned().protocol
    cast, compiled = cell(autocast=True), cell(compile=True)
    assert len({plain.id, cast.id, compiled.id}) == 3
    assert cast.labels["protocol"] == "autocast=true"


def test_autocast_multiplies_in_bfloat16_and_gives_the_loss_float32(cell, monkeypatch):
    seen = []

    def spy(self, x):
        out = self.layers(x)
        seen.append(out.dtype)
        return out

    monkeypatch.setattr(MLP, "forward", spy)
    made = cell(autocast=True)
    strategy = build(made, stream_of(made, {}))
    losses, criterion = [], strategy._criterion
    strategy._criterion = lambda out, y: losses.append(out.dtype) or criterion(out, y)
    strategy.learn(0)
    assert set(seen) == {torch.bfloat16}
    assert set(losses) == {torch.float32}
    assert {p.dtype for p in strategy.model.parameters()} == {torch.float32}


@pytest.mark.parametrize("method", sorted(declarations("method")))
def test_every_method_learns_under_autocast(cell, place, method):
    made = cell(f"{method}[coreset=4]" if method == "vcl-c" else method, epochs=1, autocast=True)
    assert run(made, place).failure is None


def test_a_compiled_network_learns_the_same_weights_and_importances(cell):
    def learned(compile):
        made = cell("ewc", epochs=1, compile=compile)
        stream = stream_of(made, {})
        strategy = build(made, stream)
        torch.manual_seed(1)
        strategy.learn(0)
        data = TensorLoader([stream.tasks[0].train], 16)
        return strategy.model, empirical_fisher(strategy.model, data)

    (plain, fisher), (compiled, compiled_fisher) = learned(False), learned(True)
    assert compiled.trunk.layers._compiled_call_impl is not None
    for name, weights in plain.state_dict().items():
        torch.testing.assert_close(compiled.state_dict()[name], weights)
        torch.testing.assert_close(compiled_fisher[name], fisher[name])
    assert float(compiled_fisher["trunk.layers.1.weight"].sum()) > 0


def test_batches_are_sliced_where_the_network_is(make_stream):
    split = make_stream().tasks[0].train
    loader = TensorLoader([split], 16, device="meta")  # a device without numbers
    assert {batch[0].device.type for batch in loader} == {"meta"}
    assert next(iter(TensorLoader([split], 16)))[0].device.type == "cpu"


def test_masks_are_torchs_own_on_demand(cell):
    def dropped(own):
        made = cell("hat", epochs=1, torch_dropout=own)
        modules = build(made, stream_of(made, {})).model.modules()
        layer = next(m for m in modules if isinstance(m, Dropout))
        torch.manual_seed(0)
        return layer(torch.ones(1000)), layer.p

    out, p = dropped(True)
    torch.manual_seed(0)
    assert torch.equal(out, torch.nn.functional.dropout(torch.ones(1000), p))
    assert not torch.equal(dropped(False)[0], out)
