"""The training protocol: how every method is trained on a benchmark."""

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, get_args

from clbench.declare import Field, Fraction, NonNegativeFloat, PositiveFloat, PositiveInt
from clbench.errors import unknown


@dataclass(frozen=True)
class Protocol:
    """How every method is trained on a benchmark, unless the method's paper demands otherwise."""

    lr: Annotated[PositiveFloat, "learning rate of SGD at the start of every task"] = 0.05
    momentum: Annotated[Fraction, "momentum of SGD"] = 0.0
    weight_decay: Annotated[NonNegativeFloat, "weight decay of SGD"] = 0.0
    batch_size: Annotated[PositiveInt, "samples per batch"] = 64
    epochs: Annotated[PositiveInt, "maximum number of epochs per task"] = 200
    patience: Annotated[
        PositiveInt, "epochs without a better validation loss before the learning rate drops"
    ] = 5
    lr_factor: Annotated[PositiveFloat, "divisor of the learning rate at a drop"] = 3.0
    lr_min: Annotated[
        NonNegativeFloat, "training of a task stops when the learning rate falls below this"
    ] = 1e-4
    valid: Annotated[Fraction, "share of a task's training data held out for validation"] = 0.15
    autocast: Annotated[
        bool,
        "the network computes in bfloat16 where torch considers that safe; extra passes of a "
        "method, for example of a distillation or a replay, do not",
    ] = False
    compile: Annotated[bool, "the network goes through torch.compile"] = False
    torch_dropout: Annotated[bool, "dropout draws its masks with torch, which is slow on a CPU"] = (
        False
    )

    def changed(self, values: Mapping[str, Any], whose: str = "") -> "Protocol":
        """This protocol with other values; a UserError names an unknown or a wrong one."""
        where = f"protocol of {whose}" if whose else "protocol"
        for name in values:
            if name not in PROTOCOL_FIELDS:
                raise unknown(f"value of the {where}:", name, PROTOCOL_FIELDS)
        checked = {name: PROTOCOL_FIELDS[name].check(v, where) for name, v in values.items()}
        return dataclasses.replace(self, **checked)


PROTOCOL_FIELDS: dict[str, Field] = {
    f.name: Field.of(f.name, f.type, f.default, get_args(f.type)[-1], "protocol")
    for f in dataclasses.fields(Protocol)
}
PROTOCOL_DEFAULTS: dict[str, Any] = asdict(Protocol())
