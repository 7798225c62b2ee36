"""Batches: the same whether inputs are made once or batch by batch."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from clbench import loader
from clbench.conformance import small_stream
from clbench.loader import TensorLoader
from clbench.seeding import generator


def test_inputs_made_per_batch_equal_inputs_made_once(monkeypatch):
    splits = [task.train for task in small_stream().tasks]
    at_once = list(TensorLoader(splits, 16, generator(0, "x")))
    monkeypatch.setattr(loader, "FLOATS", 0)
    per_batch = list(TensorLoader(splits, 16, generator(0, "x")))
    assert len(at_once) == len(per_batch) > 1
    for a, b in zip(at_once, per_batch, strict=True):
        for left, right in zip(a, b, strict=True):
            assert torch.equal(left, right)


def test_a_pass_covers_every_sample_once_and_passes_differ():
    split = small_stream().tasks[0].train
    batches = TensorLoader([split], 7, generator(0, "x"))
    first = torch.cat([x.flatten(1).sum(1) for x, _, _ in batches])
    second = torch.cat([x.flatten(1).sum(1) for x, _, _ in batches])
    assert len(batches) == -(-len(split) // 7)
    assert torch.equal(first.sort().values, second.sort().values)
    assert not torch.equal(first, second)
    everything = split.inputs().flatten(1).sum(1)
    assert torch.allclose(first.sort().values, everything.sort().values)


def test_batches_for_a_gpu_are_made_there():
    # fake tensors compute nothing, but mind on which device they are, as a real GPU would
    splits = [task.train for task in small_stream().tasks]
    with FakeTensorMode(allow_non_fake_inputs=True):
        for some in (splits[:1], splits):
            for batch in TensorLoader(some, 16, generator(0, "x"), "cuda"):
                assert [part.device.type for part in batch] == ["cuda"] * 3


def test_known_values_come_with_the_batch_they_belong_to():
    split = small_stream().tasks[0].train
    loader = TensorLoader([split], 16, generator(0, "x"))
    assert {loader.given for _ in loader} == {None}
    loader.known = loader.x.flatten(1).sum(1)
    for x, _, _ in loader:
        assert loader.given.x is x
        assert torch.equal(loader.given.values, x.flatten(1).sum(1))


def test_a_batch_of_one_task_has_one_number_for_it():
    split = small_stream().tasks[1].train
    for _, y, t in TensorLoader([split], 16, generator(0, "x")):
        assert t.tolist() == [split.task] * len(y)
        assert t.stride(0) == 0
