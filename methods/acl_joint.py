"""Joint training of the ACL network on all tasks at once (ACL-JT): an upper bound for ACL.

The same objective as `acl`, on the union of all tasks: the discriminator tells all tasks apart from
the first step on, and nothing is frozen or replayed.
"""

from clbench.stream import Stream
from clbench.training import Strategy

from .acl import ACL
from .joint import JointStrategy


class ACLJoint(ACL):
    """ACL's network and losses, trained on all tasks at once."""

    title = "ACL-JT"
    family = "reference"
    paper = "Ebrahimi et al., Adversarial Continual Learning, ECCV 2020 (row ACL-JT)"
    replay_size = ""

    def build(self, stream: Stream) -> Strategy:
        return JointStrategy(stream=stream, each=False, **self.parts(stream))

    def refuses(self, stream: Stream) -> str:
        if self.per_class:
            return "it is trained on all data, so there is nothing to replay: leave per_class at 0."
        return super().refuses(stream)
