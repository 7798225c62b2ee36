"""The reader of method files, which executes nothing, answers every file with a declaration or a
sentence, and soon."""

import os
from pathlib import Path

import pytest

from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.reading import read_declaration

HEAD = "from clbench import Method\nfrom typing import Literal\nclass M(Method):\n"
DIGITS = "0x" + "f" * 6000
# body of a class -> what the sentence says
BODIES = {
    "a: Literal[foo] = 'x'": "the type of a",
    "a: Literal[[1]] = 1": "the type of a",
    "a: Literal[()] = 1": "the type of a",
    "a: Literal[*x] = 1": "the type of a",
    f"a: Literal[{DIGITS}] = 1": "the type of a",
    "a: None | None = None": "the type of a",
    f"a: int = {DIGITS}": "a needs a default",
    "a: float = 0x" + "f" * 300: "a is a number of more than 64 bits",
    r"a: str = '\ud800'": "a needs a default",
    r"title = '\ud800'": "title must be",
    r"title = '\x1b[31m'": "title has characters",
    f"version = {DIGITS}": "version must be",
    "tuned = {'split-mnist-5k': [1]}": "tuned",
    "tuned = {'split-mnist-5k': {'lr': {'a': 1}}}": "tuned",
    "tuned = {'split-mnist-5k': {'lr': 'a'}}": "lr=a",
    "tuned = {1: {'lr': 1}}": "tuned",
    "presets = {'x': 1}": "presets",
    "presets = {'x': {'*': 1}}": "presets",
    "presets = {'x': {'*': {'lr': [1]}}}": "presets",
    "protocol = {'lr': 'a'}": "protocol",
    "protocol = {'lrr': 1}": "'lrr'",
    "protocol = {'lr': {1}}": "protocol",
    "protocol = {[]: 1}": "protocol",
    "protocol = {1: 1}": "protocol",
    "fixed = {'lr': 3}\n    protocol = {'lr': 0.1}": "fixed",
    "datasets = (...,)": "datasets",
    "title = '" + "x" * 30_000 + "'": "title has more than 20,000 characters",
    "a: int = " + "-" * 10**5 + "1": "nested too deeply",
    "a: int = " + "1+" * 10**5 + "1": "nested too deeply",
    "a: int" + ".a" * 900 + " = 1": "nested too deeply",
    "a: int = 1" + "()" * 10**5: "nested too deeply",
    "a: int = " + "(" * 1000: "not valid Python",
    "a: int = 1\n\0": "not valid Python",
    "a: int = 1\n#" + "#" * 10**6: "at most 1,000,000",
}


@pytest.mark.parametrize("body", BODIES, ids=lambda body: ascii(body)[:40])
def test_a_malformed_declaration_is_a_sentence(tmp_path: Path, body: str) -> None:
    (file := tmp_path / "mine.py").write_text(f"{HEAD}    {body}\n")
    with pytest.raises(UserError) as error:
        make_grid(str(file), "split-mnist-5k", [0], {})
    assert "mine.py" in str(error.value)
    assert BODIES[body] in str(error.value)
    assert len(str(error.value)) < 500


def test_circles_of_imports_and_of_classes_end(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from .b import B\nclass A(B): pass\n")
    (tmp_path / "b.py").write_text("from .a import A\nclass B(A): pass\n")
    (tmp_path / "own.py").write_text("from .own import M\nclass M(M): pass\n")
    for name in ("a", "b", "own"):
        with pytest.raises(UserError, match="found none"):
            read_declaration(tmp_path / f"{name}.py", "method")


def test_classes_of_very_many_ancestors_are_read_in_linear_time(tmp_path: Path) -> None:
    twice = "".join(f"class _C{n}(_C{n - 1}, _C{n - 1}): b: int = {n}\n" for n in range(1, 60))
    text = f"from clbench import Method\nclass _C0(Method): pass\n{twice}class Last(_C59): pass\n"
    (tmp_path / "twice.py").write_text(text)
    assert read_declaration(tmp_path / "twice.py", "method").defaults == {"b": 59}
    row = "".join(f"class C{n}(C{n - 1}): pass\n" for n in range(1, 2000))
    (tmp_path / "row.py").write_text(f"from clbench import Method\nclass C0(Method): pass\n{row}")
    with pytest.raises(UserError, match="2,000 classes; at most 300"):
        read_declaration(tmp_path / "row.py", "method")


def test_only_a_regular_file_in_utf_8_is_read(tmp_path: Path) -> None:
    text = f"{HEAD}    a: int = 1\n    '''half \\ud800 and \\x1b[31m'''\n"
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbf" + text.encode())
    field = read_declaration(tmp_path / "bom.py", "method").fields["a"]
    assert field.doc == "half ? and ?[31m"
    (tmp_path / "utf16.py").write_bytes(text.encode("utf-16"))
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\n# \xe9\n" + text.encode())
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "device.py").symlink_to("/dev/zero")
    (tmp_path / "mine.txt").write_text(text)
    words = dict.fromkeys(("pipe.py", "folder.py", "device.py"), "regular file")
    words |= dict.fromkeys(("utf16.py", "latin.py"), "UTF-8") | {"mine.txt": "end in .py"}
    for name, word in words.items():
        with pytest.raises(UserError, match=word):
            make_grid(str(tmp_path / name), "split-mnist-5k", [0], {})
