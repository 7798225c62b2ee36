"""Data sets: from files to uint8 arrays, with checksums and without torch."""

from clbench.data.loading import (
    DataSet,
    Description,
    Images,
    cache_root,
    data_root,
    describe,
    load,
)

__all__ = ["DataSet", "Description", "Images", "cache_root", "data_root", "describe", "load"]
