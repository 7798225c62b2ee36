"""ReLU and max-pooling in one, fast on a CPU.

Torch pools images in pixel order (`channels_last`) about ten times faster than in channel order, so
images are converted first. The ReLU follows the pooling, which leaves a quarter of the numbers. The
maximum of a window and the place that gets its gradient are the same in either order, bit for bit.
For the same reason dropout can come before both.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_WINDOW = ([2, 2], [2, 2], [0, 0], [1, 1], False)  # kernel, stride, padding, dilation, ceil


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        turned = x.contiguous(memory_format=torch.channels_last)
        out, places = torch.ops.aten.max_pool2d_with_indices(turned, *_WINDOW)
        out = out.contiguous().clamp_min_(0)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(out, places.contiguous())
            ctx.shape = x.shape
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        out, places = ctx.saved_tensors
        gradient = torch.ops.aten.threshold_backward(gradient.contiguous(), out, 0)
        back = gradient.new_zeros(ctx.shape)
        # windows do not overlap, so no place is written twice
        back.flatten(2).scatter_(2, places.flatten(2), gradient.flatten(2))
        return back


class ReLUMaxPool2d(nn.Module):
    """`torch.nn.ReLU()`, then `torch.nn.MaxPool2d(2)`."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return F.max_pool2d(F.relu(x), 2)
        out: Tensor = _Pooled.apply(x)
        return out
