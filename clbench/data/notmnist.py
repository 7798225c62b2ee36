"""notMNIST: letters A to J in many fonts, as folders or as an archive of folders.

The official archive (notMNIST_small.tar.gz, 18,726 files) has no test part, and two of its files
are empty. The paper uses the other 18,724 images, 459 of them for testing, and does not say which.
Here `clbench.data.split` chooses them: in each class the first by the SHA-256 of
`letter/file name`, in proportion to the size of the class. An archive with `Train/` and `Test/`
keeps its own division.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from clbench.data import archives, pictures
from clbench.data.reader import Block, Decoded, Files, Inspection, Reader, identity, listed
from clbench.data.split import quotas, shuffled
from clbench.errors import UserError
from clbench.files import read_bounded

LETTERS = tuple("ABCDEFGHIJ")
PARTS = ("Train", "Test")
EMPTY = {
    "A/RGVtb2NyYXRpY2FCb2xkT2xkc3R5bGUgQm9sZC50dGY=.png",
    "F/Q3Jvc3NvdmVyIEJvbGRPYmxpcXVlLnR0Zg==.png",
}
"""The two empty files of the official archive."""


@dataclass(frozen=True)
class NotMnist(Reader):
    """Reads 28x28 gray images; complete if it has the official number of them."""

    by_count = True

    @property
    def largest(self) -> int:
        """An image of 28x28 in the least compact format takes less than 4 kB."""
        return self.most * 4096

    def look(self, folder: Path) -> Files | None:
        found = {}
        for top in ("", *PARTS, *(part.lower() for part in PARTS)):
            for letter in LETTERS:
                if (path := folder / top / letter).is_dir():
                    found[f"{top.capitalize()}/{letter}".lstrip("/")] = path
        return Files(folder, found, layout="folders") if found else None

    def inspect(self, source: Files) -> Inspection:
        contents = self._contents(source)
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
        return Inspection(identity(digests), self._problem(_divide(source.where, list(contents))))

    def count(self, source: Files) -> dict[str, int]:
        if source.layout == "archive":
            names = list(self._contents(source))
        else:
            names = [name for name, _ in self._files(source) if name not in EMPTY]
        return {part: len(chosen) for part, chosen in _divide(source.where, names).items()}

    def decode(self, source: Files, accept: bool) -> Decoded:
        contents = self._contents(source)
        parts = _divide(source.where, list(contents))
        sizes = {part: len(names) for part, names in parts.items()}
        return Decoded(sizes, self.classes, self._blocks(source, contents, parts))

    def _blocks(
        self, source: Files, contents: dict[str, bytes], parts: dict[str, list[str]]
    ) -> Iterator[Block]:
        for part, names in parts.items():
            images = [
                pictures.decode(f"{source.where}: {name}", contents[name], self.shape)
                for name in names
            ]
            labels = [LETTERS.index(PurePosixPath(name).parent.name) for name in names]
            yield part, np.stack(images), np.array(labels)

    def _problem(self, parts: dict[str, list[str]]) -> str:
        found = sum(len(names) for names in parts.values())
        if {part: len(names) for part, names in parts.items()} == self.sizes:
            return ""
        return f"it has {found:,} images, the complete set has {sum(self.sizes.values()):,}"

    def _files(self, source: Files) -> Iterator[tuple[str, Path]]:
        left = self.most
        for name, folder in source.files.items():
            for path in listed(folder, left):
                left -= 1
                if pictures.is_picture(path.name):
                    yield f"{name}/{path.name}", path

    def _contents(self, source: Files) -> dict[str, bytes]:
        """`[Train/|Test/]letter/file` -> bytes; notMNIST has 9 MB in all."""
        contents: dict[str, bytes] = {}
        if source.layout != "archive":
            left = self.largest
            for name, path in self._files(source):
                if name not in EMPTY:
                    contents[name] = read_bounded(path, left)
                    left -= len(contents[name])
            return contents
        for member, content in archives.members(source.where, self.largest, self.most):
            *above, letter, file = ("", "", *PurePosixPath(member).parts)
            if letter not in LETTERS or not pictures.is_picture(file):
                continue
            top = above[-1].capitalize()
            name = f"{top}/{letter}/{file}" if top in PARTS else f"{letter}/{file}"
            if name in contents:
                raise UserError(f"{source.where} holds {name!r} more than once.")
            if name not in EMPTY:
                contents[name] = b"".join(content)
        return contents


def _divide(where: Path, names: list[str]) -> dict[str, list[str]]:
    """Names of each part, in order; each part must have all letters."""
    given: dict[str, dict[str, list[str]]] = {}
    names = sorted(names)
    for name in names:
        *top, letter, _ = name.split("/")
        given.setdefault("".join(top), {}).setdefault(letter, []).append(name)
    for part, letters in given.items():
        if missing := [letter for letter in LETTERS if letter not in letters]:
            raise UserError(f"{where / part} lacks images of the class(es) {', '.join(missing)}.")
    if set(given) == set(PARTS):
        return {part.lower(): [n for n in names if n.startswith(f"{part}/")] for part in PARTS}
    if set(given) != {""}:
        raise UserError(f"{where} must hold the folders A to J, directly or below Train and Test.")
    by_letter = given[""]
    total = round(459 * sum(map(len, by_letter.values())) / 18_724)
    wanted = quotas({letter: len(found) for letter, found in by_letter.items()}, total)
    test = {n for letter, found in by_letter.items() for n in shuffled(found)[: wanted[letter]]}
    parts = {"train": [name for name in names if name not in test], "test": sorted(test)}
    if lonely := [letter for letter in LETTERS if wanted[letter] >= len(by_letter[letter])]:
        raise UserError(f"{where} has one image of {', '.join(lonely)}, but two are needed.")
    return parts
