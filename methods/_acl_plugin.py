"""The training of ACL as an Avalanche plugin: adversary, difference loss, replay, freezing."""

from typing import TYPE_CHECKING, Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor
from torch.nn import functional as F

from clbench.loader import samples
from clbench.memory import Memory, of_model
from clbench.training.buffers import ClassBuffer

from ._acl_frozen import FrozenLatents
from ._acl_net import ACLNet, Discriminator
from ._acl_probe import probe

if TYPE_CHECKING:
    from .acl import ACL


class ReverseGradient(torch.autograd.Function):
    """The identity, whose backward pass flips the sign of the gradient."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return z.view_as(z)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


def correlation_loss(z_s: Tensor, z_p: Tensor, eps: float = 1e-5) -> Tensor:
    """Mean squared correlation between a unit of z_S and a unit of z_P over the batch.

        L = 1 / (d_S d_P) || C ||_F^2,   C = correlation matrix of the columns (d_S x d_P)

    This is eq. 3 with standardised columns, divided by the number of entries; it lies in [0, 1].
    """

    def standard(z: Tensor) -> Tensor:
        z = z - z.mean(0)
        return z / (z.square().mean(0) + eps**2).sqrt()

    c = standard(z_s).T @ standard(z_p) / len(z_s)  # (d_S, d_P)
    return c.square().mean()


def cosine_loss(z_s: Tensor, z_p: Tensor) -> Tensor:
    """The loss of the public code: mean squared cosine over all pairs of samples in the batch."""
    s = z_s / (z_s.detach().norm(dim=1, keepdim=True) + 1e-6)
    p = z_p / (z_p.detach().norm(dim=1, keepdim=True) + 1e-6)
    return (s @ p.T).square().mean()


class ACLPlugin(SupervisedPlugin):
    """Trains an `ACLNet` by  adv L_adv + task L_task + diff L_diff  (eq. 4).

    Works in any supervised strategy of Avalanche with task labels 0..tasks-1. The discriminator
    belongs to the plugin: prediction does not need it, and the optimizer must not get it.
    """

    derived = ("latents",)

    def __init__(self, tasks: int, method: "ACL") -> None:
        super().__init__()
        self.method = method
        self.adversarial = method.discriminator and method.shared
        """Whether there is a D: without S it has nothing to read."""
        self.buffer = ClassBuffer(method.per_class)
        self.done: list[int] = []
        """Learned tasks, whose P^k and p^k are frozen."""
        self.k = 0
        self.latents = FrozenLatents()
        if self.adversarial:
            self._make_discriminator(tasks + 1)

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.k = int(strategy.experience.task_labels[0])
        if self.adversarial:
            if self.method.fresh_discriminator:
                self._make_discriminator(self.k + 2)
            self.discriminator.to(strategy.device)
        self.latents.keep_tests()

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        if not len(self.buffer):  # replayed samples would join every batch
            self.latents.put_into(strategy)

    def before_eval_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.latents.put_into(strategy, test=not _is_validation(strategy))

    def _make_discriminator(self, labels: int) -> None:
        self.discriminator = Discriminator(self.method.latent, labels)
        self.d_optimizer = torch.optim.SGD(
            self.discriminator.parameters(),
            lr=self.method.d_lr,
            weight_decay=self.method.d_weight_decay,
        )

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        self.buffer.join(strategy, self.method.replay_batch)
        if len(self.buffer) and self.method.replay_private == "current":
            strategy.model.current_private = self.k

    def before_forward(self, strategy: Any, **kwargs: Any) -> None:
        strategy.model.known = getattr(strategy.dataloader, "given", None)

    before_eval_forward = before_forward

    def before_backward(self, strategy: Any, **kwargs: Any) -> None:
        strategy.loss = self._total(strategy, strategy.loss)

    def _total(self, strategy: Any, task_loss: Tensor) -> Tensor:
        method, model, tasks = self.method, strategy.model, strategy.mb_task_id
        if method.two_passes and model.training:  # fresh dropout masks, as in the public code
            model.last = model.latents(strategy.mb_x, tasks)
        z_s, z_p = model.last if model.training else model.latents(strategy.mb_x, tasks)
        total = method.task * task_loss
        if self.adversarial and z_s.numel():
            with_diff = method.reversal == "with-diff" and method.diff > 0
            reverse = method.reversal == "always" or with_diff
            self.discriminator.requires_grad_(False)  # this pass trains S only
            logits = self.discriminator(ReverseGradient.apply(z_s) if reverse else z_s)
            total = total + method.adv * F.cross_entropy(logits, tasks + 1)
            self.discriminator.requires_grad_(True)
        if method.diff > 0 and z_s.numel() and z_p.numel():
            loss = correlation_loss if method.diff_kind == "correlation" else cosine_loss
            if len(self.buffer):  # as in Algorithm 1, without replayed samples
                now = ~torch.isin(tasks, tasks.new_tensor(self.done))
                if not bool(now.all()):
                    z_s, z_p = z_s[now], z_p[now]
            total = total + method.diff * loss(z_s, z_p)
        return total

    def before_update(self, strategy: Any, **kwargs: Any) -> None:
        """After the first task S learns `shared_rate` times as fast as the rest; 0 freezes it."""
        rate = self.method.shared_rate
        shared = strategy.model.shared
        if not self.done or rate in (0, 1) or shared is None:
            return
        mine = {id(p) for p in shared.parameters()}
        for group in strategy.optimizer.param_groups:
            decay = group.get("weight_decay", 0.0)
            for p in group["params"]:
                if id(p) in mine and p.grad is not None:
                    # the optimizer adds decay * p afterwards, so this scales that term too
                    p.grad.mul_(rate).add_(p.detach(), alpha=(rate - 1) * decay)

    def after_update(self, strategy: Any, **kwargs: Any) -> None:
        for _ in range(self.method.shared_steps - 1):  # more steps on the same batch
            strategy.optimizer.zero_grad()
            out = strategy.model(strategy.mb_x, strategy.mb_task_id)
            loss = strategy._criterion(out, strategy.mb_y)
            self._total(strategy, loss).backward()
            self.before_update(strategy)
            strategy.optimizer.step()
        if self.adversarial:
            self._step_discriminator(strategy.model.last[0].detach(), strategy.mb_task_id)
        strategy.model.current_private = None
        strategy.model.last = strategy.model.known = None

    def _step_discriminator(self, z_s: Tensor, tasks: Tensor) -> None:
        """D learns to give each z_S the label of its task, and noise the label 0."""
        noise = torch.randn_like(z_s)
        self.d_optimizer.zero_grad()
        real = F.cross_entropy(self.discriminator(z_s), tasks + 1)
        fake = F.cross_entropy(self.discriminator(noise), torch.zeros_like(tasks))
        (real + fake).backward()
        self.d_optimizer.step()

    def after_eval_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """The public code selects epochs by the total loss; otherwise by the task loss alone."""
        if self.method.valid_total and _is_validation(strategy):
            strategy.loss = self._total(strategy, strategy.loss)
        strategy.model.known = None

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.done.append(self.k)
        self._freeze(strategy.model)
        if self.method.per_class:
            x, y, t = samples(strategy.experience.dataset)
            if self.method.replay_labels == "random":
                y = y[torch.randperm(len(y))]
            self.buffer.keep(x, y, t)

    def _freeze(self, model: ACLNet) -> None:
        for part in (model.private, model.heads):
            for k in self.done[: len(part)]:
                part[k].requires_grad_(False)
        if self.done and self.method.shared_rate == 0 and model.shared is not None:
            model.shared.requires_grad_(False).eval()

    def diagnostics(self, strategy: Any) -> dict[str, Any]:
        """What each branch contributes; see `probe`."""
        discriminator = self.discriminator if self.adversarial else None
        return probe(strategy, discriminator, self.k, self.latents)

    def memory(self) -> Memory:
        d = of_model(self.discriminator) if self.adversarial else 0
        return self.buffer.memory() + Memory(auxiliary=d)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"done": self.done, "k": self.k, "buffer": self.buffer.state_dict()}
        if self.adversarial:
            state["discriminator"] = self.discriminator.state_dict()
            state["d_optimizer"] = self.d_optimizer.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.done, self.k = state["done"], state["k"]
        self.buffer.load_state_dict(state["buffer"])
        if self.adversarial:
            self._make_discriminator(labels=len(state["discriminator"]["layers.3.bias"]))
            self.discriminator.load_state_dict(state["discriminator"])
            self.d_optimizer.load_state_dict(state["d_optimizer"])

    def before_training(self, strategy: Any, **kwargs: Any) -> None:
        self._freeze(strategy.model)  # loading a checkpoint does not freeze anything


def _is_validation(strategy: Any) -> bool:
    origin = getattr(strategy.experience, "origin_stream", None)
    return getattr(origin, "name", "") == "valid"
