"""The training protocol: how every method is trained on a benchmark."""

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args

from clbench.declare import Field, Fraction, NonNegativeFloat, PositiveFloat, PositiveInt, Range
from clbench.errors import UserError, unknown
from clbench.labels import text

Decay: TypeAlias = Annotated[float, Range(0, 0.999999)]
ADAM = ("beta1", "beta2", "eps")
"""Values that only Adam and AdamW use."""


@dataclass(frozen=True)
class Protocol:
    """How every method is trained on a benchmark, unless the method's paper demands otherwise."""

    lr: Annotated[PositiveFloat, "learning rate at the start of every task"] = 0.05
    momentum: Annotated[Fraction, "momentum of SGD"] = 0.0
    weight_decay: Annotated[NonNegativeFloat, "weight decay; decoupled in adamw"] = 0.0
    batch_size: Annotated[PositiveInt, "samples per batch"] = 64
    epochs: Annotated[PositiveInt, "maximum number of epochs per task"] = 200
    patience: Annotated[
        PositiveInt, "epochs without a better validation loss before the learning rate drops"
    ] = 5
    lr_factor: Annotated[PositiveFloat, "divisor of the learning rate at a drop"] = 3.0
    lr_min: Annotated[
        NonNegativeFloat, "training of a task stops when the learning rate falls below this"
    ] = 1e-4
    valid: Annotated[
        Fraction,
        "share of a task's training data held out for validation; 0: every task is trained for all "
        "epochs at one learning rate",
    ] = 0.15
    augment: Annotated[
        Literal["none", "flip-crop"],
        "random changes of training images: none, or flip-crop, which mirrors half of them and "
        "shifts each by up to 4 pixels",
    ] = "none"
    class_order: Annotated[
        str,
        "classes in tasks that split a data set: fixed (ascending), seed (random), or a list like "
        "3/1/0/2; empty: the benchmark's own order",
    ] = ""
    autocast: Annotated[
        bool,
        "the network computes in bfloat16 where torch considers that safe; extra passes of a "
        "method, for example of a distillation or a replay, do not",
    ] = False
    compile: Annotated[bool, "the network goes through torch.compile"] = False
    torch_dropout: Annotated[bool, "dropout draws its masks with torch, which is slow on a CPU"] = (
        False
    )
    optimizer: Annotated[
        Literal["sgd", "adam", "adamw"],
        "sgd, adam or adamw, started anew for every task; the learning rates of the benchmarks are "
        "for sgd, so give --lr and --lr-min with another one",
    ] = "sgd"
    beta1: Annotated[Decay, "decay per step of Adam's mean gradient"] = 0.9
    beta2: Annotated[Decay, "decay per step of Adam's mean squared gradient"] = 0.999
    eps: Annotated[PositiveFloat, "number that Adam adds to the divisor of a step"] = 1e-8
    backbone: Annotated[
        str,
        "network of ordinary methods, instead of the benchmark's own: mlp, mlp-100, alexnet, "
        "resnet18, torchvision:NAME, timm:NAME, a file ./mynet.py, or one that a package offers",
    ] = ""

    def changed(self, values: Mapping[str, Any], whose: str = "") -> "Protocol":
        """This protocol with other values; a UserError names an unknown or a wrong one."""
        where = f"protocol of {whose}" if whose else "protocol"
        for name in values:
            if name not in PROTOCOL_FIELDS:
                raise unknown(f"value of the {where}:", name, PROTOCOL_FIELDS)
        checked = {name: PROTOCOL_FIELDS[name].check(v, where) for name, v in values.items()}
        made = dataclasses.replace(self, **checked)
        for name in made.unused:
            if checked.get(name, PROTOCOL_DEFAULTS[name]) != PROTOCOL_DEFAULTS[name]:
                theirs, instead = "sgd", "; beta1 is Adam's"
                if name in ADAM:
                    theirs, instead = "adam or adamw", ""
                raise UserError(
                    f"{where}: {name}={text(checked[name])} is for {theirs}, and the optimizer is "
                    f"{made.optimizer}: leave one of them out{instead}."
                )
        return made

    @property
    def unused(self) -> tuple[str, ...]:
        """The values that are for another optimizer."""
        return ADAM if self.optimizer == "sgd" else ("momentum",)

    def settled(self) -> "Protocol":
        """The same with the defaults of values that it does not use: a benchmark's momentum is for
        SGD alone."""
        return dataclasses.replace(self, **{name: PROTOCOL_DEFAULTS[name] for name in self.unused})

    def recorded(self) -> dict[str, Any]:
        """The values that a run depends on, as they stand in its spec. Options that are off are
        left out, so a new option changes no old id."""
        off = {*self.unused, *(("optimizer",) if self.optimizer == "sgd" else ())}
        return {
            name: value
            for name, value in vars(self).items()
            if name not in off and value is not False and value not in ("", "none")
        }


PROTOCOL_FIELDS: dict[str, Field] = {
    f.name: Field.of(f.name, f.type, f.default, get_args(f.type)[-1], "protocol")
    for f in dataclasses.fields(Protocol)
}
PROTOCOL_DEFAULTS: dict[str, Any] = asdict(Protocol())
