"""The training loop and schedule that all methods share."""

from clbench.training.schedule import PlateauSchedule
from clbench.training.stock import StockStrategy
from clbench.training.strategy import Strategy

__all__ = ["PlateauSchedule", "StockStrategy", "Strategy"]
