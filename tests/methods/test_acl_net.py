"""The sizes of ACL's networks are those that the paper's counts ask for."""

import pytest
from torch import nn

from clbench.methods._acl_net import ACLNet
from clbench.methods.acl import ACL

SHAPE = (1, 28, 28)


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("shape", "classes", "latent", "head", "per_task", "total"),
    [
        (SHAPE, [2] * 5, 64, (28, 14), 54_288, 420_079),
        (SHAPE, [10] * 20, 64, (28, 28), 54_954, 1_247_719),
        (SHAPE, [10] * 30, 64, (28, 28), 54_954, 1_797_259),
        (SHAPE, [10] * 40, 64, (28, 28), 54_954, 2_346_799),
        ((3, 32, 32), [5] * 20, 128, (32, 16), 167_237, 6_242_724),
        ((3, 84, 84), [5] * 20, 256, (128, 64), 1_017_317, 28_101_028),
        ((3, 32, 32), [10] * 5, 130, (220, 110), 243_546, 4_116_740),
    ],
)
@pytest.mark.parametrize("features", ["relu", "norm"])
def test_parameters_are_those_of_the_paper(shape, classes, latent, head, per_task, total, features):
    method = ACL(latent=latent, head1=head[0], head2=head[1], features=features)
    net = ACLNet(shape, classes, method)
    assert parameters(net.private[0]) + parameters(net.heads[0]) == per_task
    assert parameters(net) == total
