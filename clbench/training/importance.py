"""Importances of parameters from per-sample gradients.

    1/N sum_n size(d loss(x_n, y_n) / d theta_i)

With the square as size and the cross-entropy of the true label as loss, this is the diagonal of the
empirical Fisher information. For a linear layer with inputs a and output gradients g, the gradient
of sample n is g_n a_n^T, so the sum of squares over a batch is the product (g*g)^T (a*a), and the
sum of absolute values |g|^T |a|. For a convolution, per-sample gradients are formed from its
unfolded input. Layers of other kinds go through `torch.func.vmap`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Size = Callable[[Tensor], Tensor]
"""torch.square or torch.abs: a function that is multiplicative and not negative."""
Loss = Callable[[Tensor, Tensor], Tensor]
"""(outputs, labels) -> the summed loss."""


def followable(weight: Tensor, strength: float, optimizer: torch.optim.Optimizer) -> Tensor:
    """The weights of a quadratic penalty, lowered where descent would diverge.

    With learning rate r and momentum m, descent on strength/2 weight d^2 diverges if
    strength * weight > 2 (1 + m) / r. There it becomes 1 / r: one step goes to the centre. Adam
    takes steps of bounded size, so no penalty is too steep for it.
    """
    if isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
        return weight
    group = optimizer.param_groups[0]
    steep = strength * weight > 2 * (1 + group.get("momentum", 0.0)) / group["lr"]
    return weight.masked_fill(steep, 1 / (strength * group["lr"])) if steep.any() else weight


def empirical_fisher(model: nn.Module, batches: Iterable[Any]) -> dict[str, Tensor]:
    """The diagonal Fisher of every parameter over batches `[x, y, task labels]`, true labels."""
    return mean_size(model, batches, nn.CrossEntropyLoss(reduction="sum"), torch.square)


def mean_size(
    model: nn.Module, batches: Iterable[Any], loss: Loss, size: Size
) -> dict[str, Tensor]:
    """The mean over samples of the size of each parameter's gradient, in evaluation mode; 0 for
    parameters that the samples do not use, like the heads of other tasks."""
    was_training = model.training
    model.eval()
    sums = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    owners = [m for m in model.modules() if any(True for _ in m.parameters(recurse=False))]
    add = _layerwise if all(map(_is_plain, owners)) else _by_vmap
    seen = 0
    with torch.compiler.set_stance("force_eager"):  # compiled networks do not call hooks
        device = next(model.parameters()).device
        for batch in batches:
            x, y, t = (part.to(device) for part in (batch[0], batch[1], batch[-1]))
            for task in t.unique().tolist():
                rows = t == task
                for name, part in add(model, x[rows], y[rows], task, loss, size):
                    sums[name] += part
            seen += len(y)
    model.train(was_training)
    return {name: total / seen for name, total in sums.items()}


def _is_plain(module: nn.Module) -> bool:
    """Whether the formulas of `_layerwise` apply to the layer."""
    if isinstance(module, nn.Conv2d):
        padded = isinstance(module.padding, str) or module.padding_mode != "zeros"
        return module.groups == 1 and not padded
    return isinstance(module, nn.Linear)


def _layerwise(
    model: nn.Module, x: Tensor, y: Tensor, task: int, loss: Loss, size: Size
) -> Iterator[tuple[str, Tensor]]:
    calls: list[tuple[str, nn.Module, Tensor, Tensor]] = []

    def remember(name: str) -> Callable[[nn.Module, Any, Tensor], Tensor]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            calls.append((name, module, inputs[0].detach(), output))
            return output.clone()  # the next module may work in place, like nn.ReLU(inplace=True)

        return hook

    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    handles = [module.register_forward_hook(remember(name)) for name, module in layers]
    try:
        # a sum, so each row of an output's gradient belongs to one sample
        total = loss(model(x, task), y)
    finally:
        for handle in handles:
            handle.remove()
    twice = len({name for name, *_ in calls}) != len(calls)  # its gradients would add up
    if twice or any(isinstance(m, nn.Linear) and a.dim() != 2 for _, m, a, _ in calls):
        yield from _by_vmap(model, x, y, task, loss, size)
        return
    calls = [call for call in calls if call[-1].requires_grad]  # frozen layers have none
    gradients = torch.autograd.grad(total, [output for *_, output in calls])
    for (name, module, a, _), g in zip(calls, gradients, strict=True):
        if isinstance(module, nn.Linear):
            yield f"{name}.weight", size(g).T @ size(a)
            bias = g
        else:
            assert isinstance(module, nn.Conv2d)
            assert not isinstance(module.padding, str)
            shape = module.kernel_size, module.dilation, module.padding, module.stride
            columns = F.unfold(a, *shape)  # (n, in*kh*kw, L)
            per_sample = torch.einsum("nol,nil->noi", g.flatten(2), columns)
            yield f"{name}.weight", size(per_sample).sum(0).view_as(module.weight)
            bias = g.flatten(2).sum(2)
        if module.bias is not None:
            yield f"{name}.bias", size(bias).sum(0)


def _by_vmap(
    model: nn.Module, x: Tensor, y: Tensor, task: int, loss: Loss, size: Size
) -> Iterator[tuple[str, Tensor]]:
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    buffers = dict(model.named_buffers())

    def of_one(parameters: dict[str, Tensor], sample: Tensor, label: Tensor) -> Tensor:
        out = torch.func.functional_call(model, (parameters, buffers), (sample[None], task))
        return loss(out, label[None])

    gradients = torch.func.vmap(torch.func.grad(of_one), in_dims=(None, 0, 0))
    rows = max(1, 2**26 // sum(p.numel() for p in parameters.values()))  # about 256 MB at a time
    for part_x, part_y in zip(x.split(rows), y.split(rows), strict=True):
        for name, g in gradients(parameters, part_x, part_y).items():
            yield name, size(g).sum(0)
