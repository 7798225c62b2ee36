"""Data sets from the files that users have to uint8 arrays, with checksums; no torch needed."""

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
