"""`clbench new method` and `clbench check`: from nothing to a method that runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_a_new_method_is_short_passes_the_checks_and_runs_as_it_is(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, clbench: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = clbench("new method my-first_method")
    assert made.code == 0
    assert "clbench check ./my_first_method.py" in made.out
    text = (tmp_path / "my_first_method.py").read_text()
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 100

    checked = clbench("check ./my_first_method.py")
    assert checked.code == 0
    assert checked.out.endswith("my-first-method passes.\n")
    assert "FAIL" not in checked.out

    ran = clbench("run --methods ./my_first_method.py --benchmarks ./tiny.py --workers 1")
    assert ran.code == 0
    assert "my-first-method" in ran.out

    again = clbench("new method my-first-method")
    assert again.code == 2
    assert "my_first_method.py exists" in again.err
    assert (tmp_path / "my_first_method.py").read_text() == text


def test_check_says_in_words_what_is_violated_and_exits_1(
    clbench: Callable[..., Any], method_file: Callable[..., Path]
) -> None:
    path = method_file("forgets")
    path.write_text(path.read_text().replace("family =", "zero_forgetting = True\n    family ="))
    result = clbench(f"check {path}")
    assert result.code == 1
    assert "FAIL  does not forget" in result.out
    assert "outputs on task 1 changed later" in result.out
    assert "forgets violates 1 of the checks." in result.err


def test_check_of_a_method_that_raises_is_no_traceback(
    clbench: Callable[..., Any], method_file: Callable[..., Path]
) -> None:
    path = method_file("raises")
    path.write_text(path.read_text().replace("return", "1 / 0; return"))
    result = clbench(f"check {path}")
    assert result.code == 1
    assert "it raised ZeroDivisionError" in result.out
    assert "raises.py, line" in result.out
    assert "Traceback" not in result.err
