"""VCL with a coreset (Nguyen et al., ICLR 2018): K-center samples are kept for the prediction.

The greedy K-center rule chooses `coreset` training samples of each task: each next sample is the
farthest from those chosen so far, in input space. They are kept and not trained on; VCL learns the
rest. To test task i, a copy of the network is fitted to the coreset of task i,

    loss = E_q[CE] + KL(q || posterior) / coreset

The copy is discarded after the test, so later training never sees the coresets. Where a test does
not know its task (`class`, `domain`), the copy is fitted to the coresets of all tasks so far.

Differs from the paper in: the points that `vcl` lists; in `task`, a test is fitted to the coreset
of its own task, where the paper uses the coresets of all tasks (its code for multi-head networks
does the same as this one); the first centre is the first sample in the task's (shuffled) order; the
fit to a coreset takes a fixed number of full-batch steps.
"""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clbench.declare import PositiveFloat, PositiveInt
from clbench.loader import TensorLoader, batches, samples
from clbench.memory import Memory
from clbench.networks.bayes import BayesNet, Gaussian, add_gradient, kl_slopes
from clbench.stream import Split, Stream
from clbench.training import Strategy
from clbench.training.buffers import Buffer

from .vcl import VCL, VCLPlugin


def k_center(x: Tensor, n: int) -> Tensor:
    """Indices of n rows: the first row, then always the row farthest from all chosen rows."""
    x = x.flatten(1)
    squares = x.square().sum(1)
    nearest = torch.full_like(squares, torch.inf)
    chosen = [0]
    while len(chosen) < n:
        last = chosen[-1]
        nearest = torch.minimum(nearest, squares - 2 * (x @ x[last]) + squares[last])
        nearest[chosen] = -torch.inf  # a row is chosen once, even among equal rows
        chosen.append(int(nearest.argmax()))
    return torch.tensor(chosen)


class VCLCPlugin(VCLPlugin):
    """VCL that holds samples back and fits a copy of the network to them for each test."""

    derived = ("_fitted",)

    def __init__(
        self,
        samples: int = 1,
        coreset: int = 40,
        steps: int = 100,
        lr: float = 1e-3,
        fit: int = 0,
    ) -> None:
        super().__init__(samples, fit)
        self.coreset, self.steps, self.lr = coreset, steps, lr
        self.kept = Buffer()
        """The coresets of all tasks so far."""
        self.learning = False
        self._learned: nn.Module | None = None  # the real network, during a test of a copy
        self._fitted: tuple[int, BayesNet] | None = None  # the last copy, and for which task label

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        super().before_training_exp(strategy, **kwargs)
        self.learning, self._fitted = True, None
        dataset = strategy.experience.dataset
        if len(dataset) <= self.coreset:
            raise ValueError(f"a coreset of {self.coreset} leaves no samples of {len(dataset)}")
        x, y, t = samples(dataset)
        chosen = k_center(x, self.coreset)
        self.kept.append(x[chosen], y[chosen], t[chosen])
        rest = torch.ones(len(y), dtype=torch.bool)
        rest[chosen] = False
        self.n = int(rest.sum())
        rows = rest.nonzero().flatten()
        size, split = strategy.train_mb_size, getattr(dataset, "split", None)
        if isinstance(split, Split):
            left = replace(split, rows=split.rows[rows], labels=split.labels[rows])
            strategy.dataloader = TensorLoader([left], size, strategy.dataloader.shuffle)
        else:
            shuffle = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
            strategy.dataloader = batches(dataset.subset(rows.tolist()), size, shuffle)

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        super().after_training_exp(strategy, **kwargs)
        self.learning = False

    def before_eval_exp(self, strategy: Any, **kwargs: Any) -> None:
        task = int(strategy.experience.task_labels[0])
        # during training, validation measures the network itself, to choose its epoch
        if not self.learning and task in self.kept.tasks:
            if self._fitted is None or self._fitted[0] != task:
                self._fitted = task, self.fitted(strategy.model, task)
            self._learned, strategy.model = strategy.model, self._fitted[1]

    def after_eval_exp(self, strategy: Any, **kwargs: Any) -> None:
        if self._learned is not None:
            strategy.model, self._learned = self._learned, None

    def fitted(self, model: BayesNet, task: int) -> BayesNet:
        """A copy fitted to the coreset of a task label; its own generator leaves training as is."""
        device = next(model.parameters()).device
        x, y, _ = (part.to(device) for part in self.kept.of_task(task))
        fit = copy.deepcopy(model).train()
        prior = {n: (m.detach(), s.detach()) for n, (m, s) in model.posterior(task).items()}

        def towards_prior(name: str, mu: Tensor, sigma: Tensor) -> Gaussian:
            return kl_slopes(mu, sigma, prior[name])

        optimizer = torch.optim.Adam(fit.parameters(), lr=self.lr)
        many_x, many_y = x.repeat(self.samples, *[1] * (x.dim() - 1)), y.repeat(self.samples)
        generator = torch.Generator().manual_seed(model.seed)
        with torch.enable_grad(), fit.drawing(generator):
            for _ in range(self.steps):
                optimizer.zero_grad()
                F.cross_entropy(fit(many_x, task), many_y).backward()
                add_gradient(fit, task, towards_prior, 1 / len(y))
                optimizer.step()
        return fit.eval()

    def memory(self) -> Memory:
        return super().memory() + self.kept.memory()

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"kept": self.kept.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.kept.load_state_dict(state["kept"])
        self._fitted = None


class VCLC(VCL):
    """VCL that holds samples of each task back for the prediction."""

    title = "VCL-C"
    family = "memory"
    paper = "Nguyen et al., Variational Continual Learning, ICLR 2018 (K-center coreset)"

    coreset: PositiveInt = 40
    """samples per task that are kept and not trained on"""
    coreset_steps: PositiveInt = 100
    """steps of the fit to a coreset"""
    coreset_lr: PositiveFloat = 0.001
    """learning rate of Adam in that fit"""

    search = {
        "momentum": "usual",
        "rho": "-7..-2",
        "mu_std": "none, 0.05, 0.1",
        "coreset_lr": "log 1e-4..1e-2",
    }
    tuned = {
        "permuted-mnist": {"coreset": 200, "adam_rate": 0.01},  # 200 as in the paper
        "split-cifar100": {"mu_std": None, "rho": -5.0},  # as in vcl
        "split-miniimagenet": {"mu_std": None, "rho": -5.0},
        "five-datasets": {"mu_std": None, "rho": -5.0},
    }

    def build(self, stream: Stream) -> Strategy:
        plugin = VCLCPlugin(
            self.samples, self.coreset, self.coreset_steps, self.coreset_lr, self.fit
        )
        return self.strategy(stream, plugin)

    def refuses(self, stream: Stream) -> str:
        least = min(len(task.train) for task in stream.tasks)
        if least <= self.coreset:
            return f"coreset={self.coreset} leaves nothing of a task's {least} samples to learn."
        return ""
