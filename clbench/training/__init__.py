"""What every method trains under."""

from clbench.training.schedule import PlateauSchedule
from clbench.training.strategy import Strategy

__all__ = ["PlateauSchedule", "Strategy"]
