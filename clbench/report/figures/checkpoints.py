"""Checkpoint -> z_S and z_P of test data, by the network as it was after the last task.

The stream and the network are rebuilt from the record and filled from the checkpoint. Nothing is
trained, and nothing in the checkpoint is executed.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clbench import data
from clbench.errors import UserError
from clbench.grid import cell_of
from clbench.networks.acl import ACLNet
from clbench.report.runs import Run
from clbench.runner import build, make_stream
from clbench.seeding import generator
from clbench.store import Store
from clbench.stream import Stream

SAMPLES = 1000
"""Most samples in a panel."""
FIRST = 10
"""Most tasks in the panel of the first tasks, as in the paper."""


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
    """z_S and z_P of some samples, (n, width) each, and what each sample is coloured by."""

    shared: NDArray[np.float32]
    private: NDArray[np.float32]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Spaces:
    """The latent spaces of one run."""

    last: Latents
    """Test data of the last task; labels are classes of the data set."""
    first: Latents
    """Test data of the first tasks; labels are tasks, from 1."""


def spaces(run: Run, source: Checkpoints) -> Spaces:
    """Both latent spaces of a finished run of ACL."""
    network, stream = restored(run, source)
    count = min(FIRST, len(stream))
    z_s, z_p, labels = latents(network, stream, len(stream) - 1, SAMPLES)
    classes = np.array(stream.tasks[-1].classes, dtype=np.int64)
    parts = [latents(network, stream, k, SAMPLES // count) for k in range(count)]
    tasks = np.concatenate([np.full(len(part[2]), k + 1) for k, part in enumerate(parts)])
    first_s, first_p = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return Spaces(Latents(z_s, z_p, classes[labels]), Latents(first_s, first_p, tasks))


def restored(run: Run, source: Checkpoints) -> tuple[ACLNet, Stream]:
    """The network after the last task, ready to be asked, and the stream it learned."""
    store = Store(source.out)
    record = store.read(run.id)
    path = store.checkpoint_path(run.id)
    if record is None:
        raise UserError(f"Run {run.id} is gone from {source.out}. Give the command again.")
    cell = cell_of(record, source.files)
    # what was accepted when it was trained is accepted now, if it is the same
    datasets = {
        name: data.load(name, source.data_root, accept=bool(used["note"]))
        for name, used in record["data"].items()
    }
    for name, used in record["data"].items():
        if datasets[name].sha256 != used["sha256"]:
            raise UserError(
                f"{name} in {source.data_root} is not the data that run {run.id} was trained on: "
                "name the folder that has it with --data-root, or train it again."
            )
    cell = replace(cell, spec=replace(cell.spec, device="cpu"))
    torch.set_num_threads(cell.spec.threads)
    stream = make_stream(cell, datasets)
    strategy = build(cell, stream)
    if not isinstance(strategy.model, ACLNet):
        raise UserError(f"{run.method} has no S and P, so there is no latent space to draw.")
    state = _state(path, record)
    try:
        strategy.load_state_dict(state)
    except RuntimeError:  # torch's, where names or shapes of weights are others
        raise UserError(
            f"{path} is that of a network which clbench builds in another way by now: clbench run "
            "--rerun all trains the run again."
        ) from None
    return strategy.model.eval(), stream


@torch.no_grad()
def latents(network: ACLNet, stream: Stream, k: int, most: int) -> Any:
    """z_S, z_P and labels inside the task of up to `most` test samples of task k."""
    test = stream.tasks[k].test
    order = torch.randperm(len(test), generator=generator(0, "latent", k))
    chosen = order[:most].sort().values
    parts = [network.latents(test.inputs(rows), k) for rows in chosen.split(stream.eval_batch)]
    z_s, z_p = (torch.cat(column) for column in zip(*parts, strict=True))
    if not (z_s.isfinite().all() and z_p.isfinite().all()):
        raise UserError(f"The network gives z that are no numbers on task {k + 1}: it diverged.")
    return z_s.numpy(), z_p.numpy(), test.labels[chosen].numpy()


def _state(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
        kept = json.loads(content["record"])
        state: dict[str, Any] = content["state"]
    except Exception as error:  # torch.load raises many kinds for a damaged file
        raise UserError(
            f"{path} cannot be read ({type(error).__name__}): clbench run --rerun all trains the "
            "run again."
        ) from None
    if kept["spec"] != record["spec"] or kept["done"] != record["done"]:
        raise UserError(
            f"{path} is not the checkpoint of the record beside it: clbench run --rerun all trains "
            "the run again."
        )
    return state
