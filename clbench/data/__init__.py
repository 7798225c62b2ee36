"""Data sets: from files to uint8 arrays, with checksums and without torch."""

from clbench.data.loading import DataSet, Images, cache_root, data_root, load

__all__ = ["DataSet", "Images", "cache_root", "data_root", "load"]
