"""From a cell to its stream and its strategy, ready to train."""

import ctypes
import sys
from dataclasses import replace
from typing import Any

import torch
from avalanche.training.templates import SupervisedTemplate

from clbench.backbone import USUAL, Network, find
from clbench.errors import UserError
from clbench.limits import TASKS
from clbench.method import Method
from clbench.networks import BACKBONES, backbone
from clbench.networks.dropout import Dropout
from clbench.registry import import_class
from clbench.seeding import seed_everything
from clbench.spec import Cell
from clbench.stream import Stream
from clbench.training import StockStrategy, Strategy
from clbench.tuning.closed import closed


def make_stream(cell: Cell, datasets: dict[str, Any]) -> Stream:
    """The benchmark's stream for the cell's seed. That of a trial cannot open test data."""
    spec = cell.spec
    benchmark = import_class(cell.benchmark)(**spec.benchmark_params)
    sources = benchmark.sources(closed(datasets) if spec.trial else datasets, spec.seed)
    if len(sources) > TASKS:
        raise UserError(f"{spec.benchmark} has {len(sources)} tasks; the most is {TASKS}.")
    if spec.trial > len(sources):
        many = f"{spec.benchmark} has {len(sources)} tasks"
        raise UserError(f"{many}, and a trial is to learn {spec.trial}.")
    return Stream(
        sources,
        name=spec.benchmark,
        backbone=_network(cell, benchmark.backbone),
        protocol=spec.protocol,
        seed=spec.seed,
        device=spec.device,
        scenario=benchmark.scenario,
        trial=spec.trial,
    )


def _network(cell: Cell, own: str) -> Network:
    """What the cell trains; `own` is what the live benchmark names, perhaps by code."""
    declared = cell.spec.benchmark_params.get("backbone", cell.benchmark.meta.get("backbone"))
    if cell.spec.protocol.backbone or own == (declared or USUAL):
        return cell.network
    network = find(own, f"{cell.benchmark.path}: backbone")
    if network.digest:
        raise UserError(f"{cell.benchmark.path}: write the backbone out: `backbone = {own!r}`.")
    return network


def refusals(cells: list[Cell], datasets: dict[str, Any]) -> dict[str, str]:
    """Why cells cannot be trained, by id, found out without training; one seed stands for all."""
    streams: dict[str, Stream | str] = {}
    built: dict[Stream, str] = {}  # why the network of a stream cannot be trained
    found: dict[str, str] = {}
    for cell in cells:
        spec = cell.spec
        # the trials of a search differ in these, and share the data of one stream
        protocol = replace(spec.protocol, lr=1.0, momentum=0.0, weight_decay=0.0)
        key = repr((spec.benchmark, spec.benchmark_params, protocol, spec.trial))
        try:
            if key not in streams:
                streams[key] = _stream_or_reason(cell, datasets)
            stream = streams[key]
            reason = stream if isinstance(stream, str) else _refusal_under(cell, stream)
            own = cell.method.meta.get("own_network", False)
            if not (reason or own or isinstance(stream, str)):
                if stream not in built:
                    built[stream] = network_problem(stream)
                reason = built[stream]
        except Exception:
            continue  # no mistake of the user's: the run itself fails, and keeps the traceback
        if reason:
            found[cell.id] = reason
    return found


def _refusal_under(cell: Cell, stream: Stream) -> str:
    return refusal(cell, stream.under(cell.spec.protocol))


def _stream_or_reason(cell: Cell, datasets: dict[str, Any]) -> Stream | str:
    on_cpu = replace(cell, spec=replace(cell.spec, device="cpu"))
    try:
        return make_stream(on_cpu, datasets)
    except UserError as error:
        return str(error)


def network_problem(stream: Stream) -> str:
    """Why the backbone of a stream cannot be built or trained; empty if it can."""
    if stream.backbone in BACKBONES:
        return ""
    try:
        least = backbone(stream.network, stream.input_shape).least_batch
    except UserError as error:
        return str(error)
    if least == 1 or stream.protocol.batch_size > 1:
        return ""
    return f"{stream.backbone} normalises over the batch, so batch_size=1 is too small."


def refusal(cell: Cell, stream: Stream) -> str:
    """Why the cell's method cannot run on the stream; empty if it can."""
    reason = import_class(cell.method)(**cell.spec.method_params).refusal(stream)
    return f"{cell.labels['method']} cannot run on {stream.name}: {reason}" if reason else ""


def build(cell: Cell, stream: Stream) -> Strategy | StockStrategy:
    """The cell's method on the stream, with initial weights from the seed."""
    if reason := refusal(cell, stream):
        raise UserError(reason)
    method = import_class(cell.method)(**cell.spec.method_params)
    strategy = built(method, stream)
    for module in strategy.model.modules() if cell.spec.protocol.torch_dropout else ():
        if isinstance(module, Dropout):
            module.fast = False
    if cell.spec.protocol.compile:
        _compile(strategy.model)
    return strategy


def built(method: Method, stream: Stream) -> Strategy | StockStrategy:
    """The method's strategy, with initial weights from the seed."""
    seed_everything(stream.seed, "init")
    strategy = method.build(stream)
    if isinstance(strategy, Strategy):
        if not _alike(strategy.stream, stream):
            raise UserError(
                f"{type(method).__name__}.build trains on another stream than the run's, or under "
                'another protocol: declare what it demands, like `protocol = {"epochs": 1}`.'
            )
        strategy.begin(type(method))
        return strategy
    if not isinstance(strategy, SupervisedTemplate):
        raise TypeError(
            f"{type(method).__name__}.build must return a strategy of clbench or Avalanche "
            f"(a SupervisedTemplate), but returned {type(strategy).__name__}"
        )
    if stream.protocol.autocast:
        raise UserError(
            f"{type(method).__name__} trains by Avalanche's own loop, which has no autocast: leave "
            "--autocast out."
        )
    made = StockStrategy(strategy, stream)
    made.begin(type(method))
    return made


def _alike(one: Stream, other: Stream) -> bool:
    """Whether two streams have the same protocol and the same training images in the same order."""
    if one is other:
        return True
    same = len(one) == len(other) and one.protocol == other.protocol
    return same and all(
        a.images.data_ptr() == b.images.data_ptr()
        and torch.equal(a.rows, b.rows)
        and torch.equal(a.labels, b.labels)
        for a, b in zip((t.train for t in one.tasks), (t.train for t in other.tasks), strict=False)
    )


def _compile(module: torch.nn.Module) -> None:
    """Compile the chains of layers in a network; its routing by task stays Python."""
    for part in module.children():
        if isinstance(part, torch.nn.Sequential):
            part.compile()
        else:
            _compile(part)


def device_problem(device: str) -> str:
    """Why torch cannot compute on a device; empty if it can."""
    try:
        torch.zeros(1, device=device).item()
    except Exception as error:
        return f"--device {device} cannot be used: {str(error).partition(chr(10))[0]}"
    return ""


def set_up_torch(cell: Cell) -> None:
    """Threads, determinism and the allocator, for the whole process."""
    if problem := device_problem(cell.spec.device):
        raise UserError(problem)
    torch.set_num_threads(cell.spec.threads)
    torch.set_flush_denormal(True)  # weights that decay to 1e-40 would make a step far slower
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if sys.platform == "linux":  # keep freed memory: giving it back costs a page fault each time
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(-3, 2**30)  # M_MMAP_THRESHOLD
            libc.mallopt(-1, 2**30)  # M_TRIM_THRESHOLD
