"""From a data set's name to its arrays: find, identify, accept or refuse, decode once, open."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clbench.data.cache import Cache
from clbench.data.catalog import reader_of
from clbench.data.reader import Block, Files, Inspection, Reader, readable
from clbench.errors import UserError


@dataclass(frozen=True)
class Images:
    """One part of a data set, decoded."""

    images: np.ndarray
    """uint8 (N, C, H, W), a read-only memory map of the cache."""
    labels: np.ndarray
    """int64 (N,), 0 to classes - 1."""


@dataclass(frozen=True)
class DataSet:
    """A data set, decoded and open."""

    name: str
    parts: dict[str, Images]
    """ "train" and "test"."""
    classes: int
    sha256: str
    """Identifies the content, whatever folder or archive it was in."""
    note: str
    """Empty for the official, complete data; else how they differ, printed with every result."""


def data_root(flag: str | None = None) -> Path:
    """The folder of the data: the flag, else CLBENCH_DATA, else the platform's cache folder."""
    return _folder(flag or os.environ.get("CLBENCH_DATA"), "data")


def cache_root() -> Path:
    """The folder of decoded images: CLBENCH_CACHE, else the platform's cache folder."""
    return _folder(os.environ.get("CLBENCH_CACHE"), "decoded")


def _folder(given: str | None, usual: str) -> Path:
    import platformdirs

    return home(given) if given else platformdirs.user_cache_path("clbench") / usual


def home(given: str) -> Path:
    """The path with the user's folder for `~`."""
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise UserError(f"{given}: there is no such user. Type the whole path.") from None


def load(
    name: str, root: Path | None = None, accept: bool = False, cache: Path | None = None
) -> DataSet:
    """Open a data set, decoded on first use. Unofficial data need `accept` and have a `note`."""
    reader = reader_of(name)
    source = locate(reader, root or data_root())
    return open_files(reader, source, accept, Cache(cache or cache_root()))


def locate(reader: Reader, root: Path) -> Files:
    """The files of the data set below `root`; a UserError says what to do if there are none."""
    with readable(root):
        source = reader.find(root)
    if source is not None:
        return source
    raise UserError(
        f"{reader.title} is not in the data root {root}. clbench looks in "
        f"{', '.join(reader.places)} ({reader.expects})"
        + (f" and for {', '.join(reader.archives)}" if reader.archives else "")
        + f". Type 'clbench data prepare {reader.name}', or give the folder that has the data in "
        "--data-root or CLBENCH_DATA."
    )


def open_files(
    reader: Reader, source: Files, accept: bool, cache: Cache, instead: str = ""
) -> DataSet:
    """Open the data set at `source`; if it is not official, an error says what to do `instead`."""
    with readable(source.where):
        before = source.fingerprint()
        inspection = identify(reader, source, cache)
        if inspection.problem and not accept:
            raise UserError(
                f"{source.where} is not the official, complete {reader.title}: "
                f"{inspection.problem}. Add --accept-data to your command to use it as it is; "
                f"every result will say so. Or {instead or _replace(reader, source)}."
            )
        entry = cache.open(reader, inspection.sha256)
        if entry is None:
            decoded = reader.decode(source, accept)
            decoded.blocks = _unchanged(source, before, decoded.blocks)
            entry = cache.build(reader, inspection.sha256, decoded)
        if entry.remarks and not accept:
            raise UserError(
                f"{source.where} can be used only {', '.join(entry.remarks)}. "
                "Add --accept-data to your command to allow that; every result will say so."
            )
        parts = {part: Images(*arrays) for part, arrays in entry.parts.items()}
        sizes = {part: len(images.labels) for part, images in parts.items()}
        words = note(reader, inspection.problem, sizes, entry.classes, entry.remarks)
        return DataSet(reader.name, parts, entry.classes, inspection.sha256, words)


def identify(reader: Reader, source: Files, cache: Cache) -> Inspection:
    """Identify the content of the files; they are read only if the cache does not know them."""
    with readable(source.where):
        known = cache.recall(reader, source)
        if known is None:
            known = reader.inspect(source)
            cache.remember(reader, source, known)
        return known


def _replace(reader: Reader, source: Files) -> str:
    """Advice on how to replace the files by the official ones."""
    if not reader.places:
        return "reinstall the package that it belongs to"
    few = [str(path) for path in source.files.values()] if len(source.files) < 3 else []
    away = " and ".join(few) or source.where
    return f"move {away} away and type 'clbench data prepare {reader.name}'"


def _unchanged(source: Files, before: object, blocks: Iterator[Block]) -> Iterator[Block]:
    """`blocks`; after them an error if the files have changed since they were identified."""
    yield from blocks
    if source.fingerprint() != before:
        raise UserError(f"{source.where} changed while it was read. Try again.")


def note(
    reader: Reader, problem: str, sizes: dict[str, int], classes: int = 0, more: Sequence[str] = ()
) -> str:
    """How the data differ from the official ones, as printed with results; empty if they do not."""
    words = []
    found, official = sum(sizes.values()), sum(reader.sizes.values())
    if problem and found < official:
        words.append(f"subset: {found:,} of {official:,} images")
        if classes not in (0, reader.classes):
            words.append(f"{classes} of {reader.classes} classes")
    elif problem:
        larger = f"{found:,} images instead of {official:,}"
        words.append(larger if found > official else "unofficial encoding")
    return ", ".join([*words, *more])
