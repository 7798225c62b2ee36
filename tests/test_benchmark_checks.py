"""`clbench check` on a benchmark, and `clbench new benchmark` and `new backbone`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench.conformance import benchmark as checks
from clbench.reading import read_declaration

WHOLE = '''
"""A benchmark with one fault."""

import os

import numpy as np
import torch

from clbench import Benchmark, Images, Source

rng = np.random.default_rng(0)
PATTERNS = rng.integers(0, 200, (4, 1, 6, 6))


def made(n, labels=None):
    labels = np.arange(n) % 4 if labels is None else labels
    noise = rng.integers(0, 56, (n, 1, 6, 6))
    return Images((PATTERNS[labels] + noise).astype(np.uint8), labels.astype(np.int64))


TRAIN, TEST = made(160), made(80)


class Fault(Benchmark):
    """A benchmark with one fault."""

    title = "Fault"
    protocol = {"lr": 0.1, "batch_size": 16, "epochs": 2}

    def sources(self, data, seed):
        train, test = TRAIN, TEST
        one, two = (0, 1), (2, 3)
        view = None
        tasks = [Source(train, test, c, (0.5,), (0.25,), view=view) for c in (one, two)]
        return tasks
'''

FAULTS: dict[str, tuple[list[tuple[str, str]], Callable[..., str] | None, str]] = {
    # fault: (what replaces what, the check that fails, what it says)
    "none": ([], None, ""),
    "untitled": ([('title = "Fault"', 'title = ""')], checks.declares, "Fault lacks title."),
    "undocumented": (
        [('title = "Fault"', 'title = "Fault"\n    x: int = 1')],
        checks.declares,
        "Fault lacks a docstring below x.",
    ),
    "empty": ([("return tasks", "return []")], checks.has_tasks, "returned no tasks"),
    "other": ([("return tasks", "return [1]")], checks.has_tasks, "task 1 is a int, not a Source"),
    "raising": (
        [("return tasks", "return 1 / 0")],
        checks.has_tasks,
        "it raised ZeroDivisionError: division by zero (",
    ),
    "unseeded": (
        [("one, two = (0, 1), (2, 3)",
          "one, two = np.random.permutation(4).reshape(2, 2).tolist()")],
        checks.repeats,
        "the same seed gave classes",
    ),
    "noisy": (
        [("train, test = TRAIN, TEST", "train, test = made(160), TEST")],
        checks.repeats,
        "the same seed gave other train images: every random draw must come from the seed",
    ),
    "blinking": (
        [("view = None", "view = lambda x: x[..., torch.randperm(6)]")],
        checks.views_repeat,
        "task 1: view gave two different results for the same images",
    ),
    "turning": (
        [("view = None", "p = torch.randperm(6); view = lambda x: x[..., p]")],
        checks.views_repeat,
        "two calls of sources() with the same seed gave different views",
    ),
    "batchwise": (
        [("view = None", "view = lambda x: (x.float() - x.float().mean()).byte()")],
        checks.views_repeat,
        "view gives an image another result in another batch",
    ),
    "absent": (
        [("two = (0, 1), (2, 3)", "two = (0, 1), (2, 7)")],
        checks.labels_fit,
        "task 2: no train image has the label 7",
    ),
    "twice": (
        [("two = (0, 1), (2, 3)", "two = (0, 0), (2, 3)")],
        checks.labels_fit,
        "task 1 needs at least two different classes; it has (0, 0)",
    ),
    "short": (
        [("train, test = TRAIN, TEST",
          "train, test = Images(TRAIN.images, TRAIN.labels[:9]), TEST")],
        checks.labels_fit,
        "task 1: 160 train images have 9 labels",
    ),
    "small": (
        [("labels.astype(np.int64)", "labels.astype(np.int32)")],
        checks.labels_fit,
        "train labels must be a row of int64; they are int32 of the shape 160",
    ),
    "float": (
        [("astype(np.uint8)", "astype(np.float32)")],
        checks.images_fit,
        "task 1: train images must be uint8 of the shape (N, C, H, W); they are float32",
    ),
    "wide": (
        [("TRAIN, TEST = made(160), made(80)",
          "TRAIN, TEST = made(160), made(80)\nTEST = Images(TEST.images[:, :, :5], TEST.labels)")],
        checks.images_fit,
        "images differ in shape: the train images of task 1: (1, 6, 6), the test images of task 1",
    ),
    "bright": (
        [("(0.5,), (0.25,)", "(127.5,), (0.25,)")],
        checks.images_fit,
        "task 1: mean is 127.5; images are scaled to [0, 1] first",
    ),
    "flat": (
        [("(0.5,), (0.25,)", "(0.5,), (0.0,)")],
        checks.images_fit,
        "task 1: std is (0.0,)",
    ),
    "few": (
        [("made(160), made(80)", "made(8), made(80)")],
        checks.splits_hold_images,
        "none is left for validation",
    ),
    "leaking": (
        [("train, test = TRAIN, TEST",
          "train = TRAIN; test = Images(TEST.images.copy(), TEST.labels);"
          " test.images[4] = TRAIN.images[8]; test.images[5] = TRAIN.images[9]")],
        checks.tests_are_new,
        "task 1: 2 of 40 test images are training images of the task too (test 4 = training 8, "
        "test 5 = training 9).",
    ),
    "netless": (
        [('title = "Fault"', 'title = "Fault"\n    backbone = "torchvision:squeezenet1_1"')],
        checks.backbone_builds,
        "torchvision:squeezenet1_1 cannot take images of 1x6x6",
    ),
    "shuffled": (
        [("TRAIN, TEST = made(160), made(80)",
          "TRAIN, TEST = made(160), made(80)\n"
          "TRAIN = Images(TRAIN.images, np.random.default_rng(1).permutation(TRAIN.labels))")],
        checks.is_learnt,
        "% after one epoch, and chance is 50.0 %",
    ),
    "racing": (
        [('"lr": 0.1', '"lr": 1e30')],
        checks.is_learnt,
        "lower the learning rate",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_benchmark_is_caught_in_words(name: str, tmp_path: Path) -> None:
    changes, check, words = FAULTS[name]
    text = WHOLE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    found = checks.check(read_declaration(path, "benchmark"), tmp_path)
    said = {f.what: f.words for f in found}
    found = {what for what, violated in said.items() if violated}
    if check is None:
        assert not found
        assert list(said) == [function.__doc__ for function in checks.CHECKS]
    else:
        assert words in said[str(check.__doc__)]
        assert found == {check.__doc__}  # one fault, one complaint


def test_every_check_of_benchmarks_has_a_fault() -> None:
    assert {check for _, check, _ in FAULTS.values()} == {None, *checks.CHECKS}


def test_a_new_benchmark_passes_the_checks_and_runs_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clbench: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = clbench("new benchmark my-digits")
    assert made.code == 0
    assert "clbench run --methods finetune,ewc --benchmarks ./my_digits.py" in made.out
    assert clbench("new backbone my-net").code == 0
    for name in ("my_digits.py", "my_net.py"):
        text = (tmp_path / name).read_text()
        assert len(text.splitlines()) <= 40
        assert max(map(len, text.splitlines())) <= 100

    checked = clbench("check ./my_digits.py")
    assert checked.code == 0
    assert checked.out.endswith("my-digits passes.\n")
    assert "FAIL" not in checked.out

    ran = clbench(
        "run --methods finetune,ewc --benchmarks ./my_digits.py[tasks=2] --epochs 1 --workers 1 "
        "--backbone ./my_net.py"
    )
    assert ran.code == 0
    assert "backbone=my-net@" in ran.out
    assert clbench("new benchmark my-digits").code == 2
    assert clbench("new benchmark split-mnist").code == 2
    assert clbench("new backbone mlp").code == 2


def test_check_takes_a_file_as_what_it_holds(
    tmp_path: Path, tiny: Path, clbench: Callable[..., Any]
) -> None:
    path = tmp_path / "leaks.py"
    old = "train, test = TRAIN, TEST"
    path.write_text(WHOLE.replace(old, "train, test = TRAIN, TRAIN"))
    result = clbench(f"check {path}")
    assert result.code == 1
    assert "FAIL  tests on images that the task does not train on" in result.out
    assert "leaks violates 1 of the checks." in result.err
    neither = tmp_path / "neither.py"
    neither.write_text("x = 1\n")
    result = clbench(f"check {neither}")
    assert result.code == 2
    assert "holds neither a method nor a benchmark" in result.err
    assert "A backbone is tried by a run: clbench run --methods finetune" in result.err
    assert clbench("check split-mnist-5k").code == 0
