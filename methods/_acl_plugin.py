"""The training of ACL as an Avalanche plugin: adversary, difference loss, replay, freezing."""

from typing import TYPE_CHECKING, Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn

from clbench.loader import samples
from clbench.memory import Memory, of_model
from clbench.training.buffers import ClassBuffer, Union

from ._acl_adversary import Adversary
from ._acl_frozen import FrozenLatents
from ._acl_losses import DIFFERENCE
from ._acl_net import ACLNet
from ._acl_probe import probe

if TYPE_CHECKING:
    from .acl import ACL

COLOR = ("cifar10", "svhn")
"""The data sets of 5-Datasets that are in color."""


class ACLPlugin(SupervisedPlugin):
    """Trains an `ACLNet` by  adv L_adv + task L_task + diff L_diff  (eq. 4).

    Works in any supervised strategy of Avalanche with task labels 0..tasks-1. The adversary
    belongs to the plugin: prediction does not need it, and the optimizer must not get it.
    """

    derived = ("latents",)

    def __init__(self, tasks: int, method: "ACL") -> None:
        super().__init__()
        self.method = method
        self.adversary = (
            Adversary(tasks, method) if method.discriminator and method.shared else None
        )
        """D, if there is an S that it can read."""
        self.buffer = ClassBuffer(method.per_class)
        self.done: list[int] = []
        """Learned tasks, whose P^k and p^k are frozen."""
        self.k = 0
        self.latents = FrozenLatents()

    def networks(self) -> list[nn.Module]:
        """D: it is restored from the best epoch together with the model."""
        return [] if self.adversary is None else [self.adversary.network]

    def before_training(self, strategy: Any, **kwargs: Any) -> None:
        self._freeze(strategy.model)  # loading a checkpoint does not freeze anything

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.k = int(strategy.experience.task_labels[0])
        rate = 1.0
        if self.method.color_rate != 1 and strategy.stream.tasks[self.k].title in COLOR:
            rate = self.method.color_rate
            for group in strategy.optimizer.param_groups:
                group["lr"] *= rate
        self.lr = strategy.optimizer.param_groups[0]["lr"]
        if self.adversary is not None:
            self.adversary.begin(self.k, strategy.device, rate)
        self.latents.keep_tests()
        if len(self.buffer) and self.method.replay == "union":
            new, size = len(strategy.experience.dataset), strategy.train_mb_size
            strategy.dataloader = Union(strategy.dataloader, new, self.buffer, size)

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        if self.adversary is not None:
            self.adversary.begin_epoch()
        if not len(self.buffer):  # replayed samples would join every batch
            self.latents.put_into(strategy)

    def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        if self.adversary is not None:
            self.adversary.end_epoch()
        lr = strategy.optimizer.param_groups[0]["lr"]
        if self.method.fresh_momentum and lr != self.lr:
            strategy.optimizer.state.clear()
        self.lr = lr

    def before_eval_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.latents.put_into(strategy, test=not _is_validation(strategy))

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        if self.method.replay == "equal":
            self.buffer.join(strategy, None)
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
        if self.adversary is not None:
            total = total + method.adv * self.adversary.loss(z_s, tasks)
        if method.diff > 0 and z_s.numel() and z_p.numel():
            if len(self.buffer):  # as in Algorithm 1, without replayed samples
                now = ~torch.isin(tasks, tasks.new_tensor(self.done))
                z_s, z_p = z_s[now], z_p[now]
            if len(z_s):  # a batch of the union can be all replay
                total = total + method.diff * DIFFERENCE[method.diff_kind](z_s, z_p)
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
        if self.adversary is not None:  # it learns from features after S's step, as in Algorithm 1
            with torch.no_grad():
                z_s = strategy.model.shared_space(strategy.mb_x).float()
            self.adversary.step(z_s, strategy.mb_task_id)
        strategy.model.current_private = None
        strategy.model.last = strategy.model.known = None

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
        discriminator = None if self.adversary is None else self.adversary.network
        return probe(strategy, discriminator, self.k, self.latents)

    def memory(self) -> Memory:
        return self.buffer.memory() + Memory(auxiliary=sum(map(of_model, self.networks())))

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"done": self.done, "k": self.k, "buffer": self.buffer.state_dict()}
        if self.adversary is not None:
            state["adversary"] = self.adversary.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.done, self.k = state["done"], state["k"]
        self.buffer.load_state_dict(state["buffer"])
        if self.adversary is not None:
            self.adversary.load_state_dict(state["adversary"])


def _is_validation(strategy: Any) -> bool:
    origin = getattr(strategy.experience, "origin_stream", None)
    return getattr(origin, "name", "") == "valid"
