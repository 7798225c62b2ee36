"""Training loops written by hand in bare PyTorch: the limit that a harness can come near.

Each maker takes the network, the first task's data as a past and the second one's as the present,
and gives back a function that trains for one epoch on the present. What a method keeps of the past
is made before the clock starts.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Epoch = Callable[[], None]
Data = tuple[Tensor, Tensor]
K = 1  # the task that is learned


def _batches(data: Data, size: int) -> Iterator[Data]:
    x, y = data
    for rows in torch.randperm(len(y)).split(size):
        yield x.index_select(0, rows), y.index_select(0, rows)


def _sgd(parameters: Any, lr: float, **options: float) -> torch.optim.SGD:
    return torch.optim.SGD(parameters, lr=lr, foreach=True, **options)


def finetune(net: nn.Module, now: Data, size: int, lr: float, momentum: float = 0.0) -> Epoch:
    optimizer = _sgd(net.parameters(), lr, momentum=momentum)

    def epoch() -> None:
        for x, y in _batches(now, size):
            optimizer.zero_grad()
            F.cross_entropy(net(x, K), y).backward()
            optimizer.step()

    return epoch


def ewc(net: nn.Module, now: Data, size: int, lr: float, strength: float) -> Epoch:
    optimizer = _sgd(net.parameters(), lr)
    used = [*net.trunk.parameters(), *net.heads[K].parameters()]
    anchors = [(p, p.detach().clone(), torch.rand_like(p) * 1e-6) for p in used]

    def epoch() -> None:
        for x, y in _batches(now, size):
            optimizer.zero_grad()
            F.cross_entropy(net(x, K), y).backward()
            with torch.no_grad():
                for p, centre, weight in anchors:
                    p.grad += (p - centre).mul_(weight).mul_(strength)
            optimizer.step()

    return epoch


def er_res(net: nn.Module, past: Data, now: Data, size: int, lr: float, capacity: int) -> Epoch:
    optimizer = _sgd(net.parameters(), lr)

    def epoch() -> None:
        keep_x, keep_y = past[0][:capacity].clone(), past[1][:capacity].clone()
        keep_t, offered = torch.zeros_like(keep_y), len(past[1])
        for x, y in _batches(now, size):
            n = len(y)
            drawn = torch.randperm(capacity)[:n]
            optimizer.zero_grad()
            z = net.trunk(torch.cat([x, keep_x.index_select(0, drawn)]))
            old = keep_t[drawn]
            loss = F.cross_entropy(net.heads[K](z[:n]), y, reduction="sum")
            for t in old.unique().tolist():
                mine = (old == t).nonzero().flatten()
                out = net.heads[t](z[n + mine])
                loss = loss + F.cross_entropy(out, keep_y[drawn][mine], reduction="sum")
            (loss / (n + len(drawn))).backward()
            optimizer.step()
            counts = torch.arange(offered + 1, offered + n + 1)
            slots = (torch.rand(n, dtype=torch.float64) * counts).long()
            offered += n
            for i in (slots < capacity).nonzero().flatten().tolist():
                keep_x[slots[i]], keep_y[slots[i]], keep_t[slots[i]] = x[i], y[i], K

    return epoch


def agem(net: nn.Module, past: Data, now: Data, size: int, lr: float, kept: int) -> Epoch:
    optimizer = _sgd(net.parameters(), lr)
    parameters = list(net.parameters())
    old_x, old_y = past[0][:kept].clone(), past[1][:kept].clone()

    def epoch() -> None:
        for x, y in _batches(now, size):
            optimizer.zero_grad()
            F.cross_entropy(net(x, K), y).backward()
            drawn = torch.randperm(kept)[:256]
            net.eval()
            past_x, past_y = (part.index_select(0, drawn) for part in (old_x, old_y))
            loss = F.cross_entropy(net(past_x, 0), past_y)
            net.train()
            reference = torch.autograd.grad(loss, parameters, allow_unused=True)
            with torch.no_grad():
                pairs = [
                    (p, r) for p, r in zip(parameters, reference, strict=True) if r is not None
                ]
                product = sum((p.grad * r).sum() for p, r in pairs if p.grad is not None)
                if product < 0:
                    scale = product / sum(r.square().sum() for _, r in pairs)
                    for p, r in pairs:
                        p.grad = -scale * r if p.grad is None else p.grad.sub_(scale * r)
            optimizer.step()

    return epoch


def hat(net: nn.Module, now: Data, size: int, lr: float, smax: float, strength: float) -> Epoch:
    """`net` is a gated network; a tenth of the units is taken as claimed by the past."""
    embeddings = [e[K] for e in net.embeddings]
    chosen = {id(e) for of_layer in net.embeddings for e in of_layer}
    rest = [p for p in net.parameters() if id(p) not in chosen]
    optimizer = _sgd([{"params": rest}, {"params": embeddings}], lr)
    claimed = [(torch.rand(n) < 0.1).float() for n in net.units]
    factors, below = [], None
    for layer, c, repeats in zip(net.layers, claimed, net.repeats, strict=True):
        tail = [1] * (layer.weight.dim() - 1)
        kept = c.view(-1, *tail).expand(len(c), *layer.weight.shape[1:])
        if below is not None:
            kept = torch.minimum(kept, below.repeat_interleave(repeats).view(1, -1, *tail[1:]))
        factors.append((1 - kept, 1 - c))
        below = c
    free = sum(float((1 - c).sum()) for c in claimed)

    def epoch() -> None:
        steps = -(-len(now[1]) // size)
        for at, (x, y) in enumerate(_batches(now, size)):
            s = 1 / smax + (smax - 1 / smax) * at / (steps - 1)
            net.s = s
            optimizer.zero_grad()
            gates = [torch.sigmoid(s * e) for e in embeddings]
            used = sum((a * (1 - c)).sum() for a, c in zip(gates, claimed, strict=True))
            loss = F.cross_entropy(net(x, K), y) + strength * used / free
            loss.backward()
            with torch.no_grad():
                for layer, (weight, bias) in zip(net.layers, factors, strict=True):
                    layer.weight.grad *= weight
                    layer.bias.grad *= bias
                for e in embeddings:
                    bounded = (s * e).clamp(-50, 50)
                    e.grad *= smax / s * (bounded.cosh() + 1) / (e.cosh() + 1)
            optimizer.step()
            with torch.no_grad():
                for e in embeddings:
                    e.clamp_(-6, 6)

    return epoch


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, z: Tensor) -> Tensor:
        return z.view_as(z)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return -gradient


def acl(net: nn.Module, adversary: nn.Module, now: Data, size: int, protocol: dict) -> Epoch:
    """The first task of ACL, where S learns: `protocol` has lr, momentum, weight_decay, d_lr."""
    adversary = copy.deepcopy(adversary)
    mine = [*net.shared.parameters(), *net.private[0].parameters(), *net.heads[0].parameters()]
    options = {key: protocol[key] for key in ("lr", "momentum", "weight_decay")}
    optimizer = _sgd(mine, **options)
    d_optimizer = _sgd(adversary.parameters(), protocol["d_lr"])
    drop = protocol["branch_drop"]

    def standard(z: Tensor) -> Tensor:
        z = z - z.mean(0)
        return z / (z.square().mean(0) + 1e-10).sqrt()

    def epoch() -> None:
        for x, y in _batches(now, size):
            n = len(y)
            ones = torch.ones(n, dtype=torch.long)
            optimizer.zero_grad()
            z_s, z_p = net.shared(x), net.private[0](x)
            if drop:
                draw, scale = torch.rand(n, 1), 1 / (1 - drop)
                s = z_s * ((draw >= drop) * scale)
                p = z_p * (((draw < drop) | (draw >= 2 * drop)) * scale)
            else:
                s, p = z_s, z_p
            loss = F.cross_entropy(net.heads[0](torch.cat([p, s], 1)), y)
            adversary.requires_grad_(False)
            fooled = F.cross_entropy(adversary(_Reversed.apply(z_s)), ones)
            adversary.requires_grad_(True)
            correlation = standard(z_s).T @ standard(z_p) / n
            (loss + 0.05 * fooled + 0.1 * correlation.square().mean()).backward()
            optimizer.step()
            with torch.no_grad():  # D sees the features after S's step
                z = net.shared(x)
            d_optimizer.zero_grad()
            real = F.cross_entropy(adversary(z), ones)
            fake = F.cross_entropy(adversary(torch.randn_like(z)), 0 * ones)
            (real + fake).backward()
            d_optimizer.step()

    return epoch
