"""20-Split miniImageNet: a hundred classes, five per task, in an order from the seed."""

from .split_cifar100 import SplitCIFAR100


class SplitMiniImageNet(SplitCIFAR100):
    """The classes of miniImageNet in twenty five-way tasks."""

    title = "20-Split miniImageNet"
    datasets = ("miniimagenet",)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
