"""SECURITY.md names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_is_named_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    file, named = Path(), 0
    for path, name in re.findall(r"`([\w/]*\.py)?::(\w+)(?:\[\w+\])?`", text):
        if path:
            file = ROOT / path if "/" in path else ROOT / "tests" / "security" / path
        assert f"\ndef {name}(" in file.read_text(), f"{file}::{name}"
        named += 1
    assert named == text.count("::") - 1 > 30  # the first says how tests are named
