"""Joint training of the ACL network on all tasks at once (ACL-JT): an upper bound for ACL.

It has the objective of `acl`, on the union of all tasks. The discriminator sees all tasks from the
first step on. Nothing is frozen or replayed.
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
    zero_forgetting_if = {}
    replay_size = ""
    search = {"momentum": "usual", "adv": "log 0.005..0.5", "diff": "log 0.01..1"}
    unseen = {
        "shared_rate": "there is no second task",
        "d_patience": "L_adv must first stop falling",
        "fresh_momentum": "the learning rate must drop first",
        "valid_total": "the two losses must be least in different epochs",
    }

    def build(self, stream: Stream) -> Strategy:
        return JointStrategy(stream=stream, each=False, **self.parts(stream))

    def refuses(self, stream: Stream) -> str:
        if self.per_class:
            return "acl-joint trains on all data and replays nothing: leave per_class at 0."
        return super().refuses(stream)
