"""Checkpoint -> latent spaces of test data, by the network as it was after the last task.

The stream and the network are rebuilt from the record and filled from the checkpoint. Nothing is
trained, and nothing in the checkpoint is executed. The network of a method that lays its latent
spaces open has a function `spaces(x, task) -> {name: tensor of (n, width)}`.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clbench import data
from clbench.checkpoint import load
from clbench.errors import UserError
from clbench.grid import cell_of
from clbench.record import Record
from clbench.record_file import DamagedRecordError
from clbench.report.runs import Run
from clbench.seeding import generator
from clbench.store import Store
from clbench.stream import Stream

SAMPLES = 1000
"""Most samples in a panel."""
FIRST = 10
"""Most tasks in the panel of the first tasks, as in the paper."""

THREADS = 1024
"""Most threads that are started because a record says so."""


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints and data are, and the files of a user's own methods and benchmarks."""

    out: Path
    data_root: Path
    files: tuple[Path, ...] = ()

    def has(self, run: Run) -> bool:
        return Store(self.out).checkpoint_path(run.id).exists()


@dataclass(frozen=True)
class Latents:
    """The latent spaces of some samples, (n, width) each, and the label of each sample."""

    spaces: dict[str, NDArray[np.float32]]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Drawn:
    """What the figure shows of one run."""

    last: Latents
    """Test data of the last task; labels are classes of the data set."""
    first: Latents
    """Test data of the first tasks; labels are tasks, from 1."""


def drawn(run: Run, source: Checkpoints) -> Drawn:
    """The latent spaces of a finished run."""
    network, stream = restored(run, source)
    count = min(FIRST, len(stream))
    last = latents(network, stream, len(stream) - 1, SAMPLES)
    classes = np.array(stream.tasks[-1].classes, dtype=np.int64)
    parts = [latents(network, stream, k, SAMPLES // count) for k in range(count)]
    tasks = np.concatenate([np.full(len(part.labels), k) for k, part in enumerate(parts, 1)])
    first = {
        name: np.concatenate([part.spaces[name] for part in parts]) for name in parts[0].spaces
    }
    return Drawn(Latents(last.spaces, classes[last.labels]), Latents(first, tasks))


def restored(run: Run, source: Checkpoints) -> tuple[Any, Stream]:
    """The network after the last task, in evaluation mode, and the stream it learned."""
    from clbench.build import build, make_stream

    store = Store(source.out)
    record = store.read(run.id)
    if record is None:
        raise UserError(f"Run {run.id} is gone from {source.out}. Run the command again.")
    cell = cell_of(record, source.files)
    if record.data.keys() != set(cell.benchmark.meta.get("datasets", ())):
        raise UserError(f"Run {run.id} names other data sets than {run.benchmark} has.")
    # what was accepted when it was trained is accepted now, if it is the same
    datasets = {
        name: data.load(name, source.data_root, accept=bool(used.note))
        for name, used in record.data.items()
    }
    for name, used in record.data.items():
        if datasets[name].sha256 != used.sha256:
            raise UserError(
                f"{name} in {source.data_root} is not the data that run {run.id} was trained on: "
                "name the folder that has it with --data-root, or train it again."
            )
    cell = replace(cell, spec=replace(cell.spec, device="cpu"))
    if not 1 <= cell.spec.threads <= THREADS:
        raise UserError(
            f"Run {run.id} says {cell.spec.threads} threads, which is not 1 to {THREADS}."
        )
    torch.set_num_threads(cell.spec.threads)
    stream = make_stream(cell, datasets)
    strategy = build(cell, stream)
    if not hasattr(strategy.model, "spaces"):
        raise UserError(
            f"{run.method} lays latent spaces open, but its network has no function "
            "`spaces(x, task)`."
        )
    path = store.checkpoint_path(run.id)
    state = _state(path, record)
    try:
        strategy.load_state_dict(state)
    except Exception:  # other names, shapes or types than today's code has
        raise _unusable(path, "does not fit the network that clbench builds today") from None
    return strategy.model.eval(), stream


@torch.no_grad()
def latents(network: Any, stream: Stream, k: int, most: int) -> Latents:
    """The spaces, and labels inside the task, of up to `most` test samples of task k."""
    test = stream.tasks[k].test
    order = torch.randperm(len(test), generator=generator(0, "latent", k))
    chosen = order[:most].sort().values
    parts = [network.spaces(test.inputs(rows), k) for rows in chosen.split(stream.eval_batch)]
    spaces = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    if not all(z.isfinite().all() for z in spaces.values()):
        raise UserError(f"Latent values of task {k + 1} are not finite: the network diverged.")
    return Latents({name: z.numpy() for name, z in spaces.items()}, test.labels[chosen].numpy())


def _state(path: Path, record: Record) -> dict[str, Any]:
    try:
        kept, state = load(path, record.id, "cpu")
    except DamagedRecordError:
        kept = None
    except Exception as error:  # torch.load raises many kinds for a damaged file
        raise _unusable(path, f"cannot be read ({type(error).__name__})") from None
    if kept is None or kept.spec != record.spec or kept.done != record.done:
        raise _unusable(path, "is not the checkpoint of the record beside it")
    return state


def _unusable(path: Path, why: str) -> UserError:
    return UserError(f"{path} {why}: clbench run --rerun all trains the run again.")
