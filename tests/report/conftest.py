"""Records as runs write them, small enough to work out by hand; and a browser to see pages in."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clbench.report import tables, write

Record = dict[str, Any]
Open = Callable[..., Any]
PROTOCOL = {
    "lr": 0.05,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "batch_size": 64,
    "epochs": 200,
    "patience": 5,
    "lr_factor": 3.0,
    "lr_min": 0.0001,
    "valid": 0.15,
}
FAMILIES = {"ewc": "regularization", "pnn": "structure", "agem": "memory"}
TITLES = {"ewc": "EWC", "pnn": "PNN", "agem": "A-GEM", "joint": "ORD-JT", "finetune": "ORD-FT"}


def make_record(
    method: str = "ewc",
    seed: int = 0,
    last: tuple[float, float] = (90.0, 80.0),
    first: float = 95.0,
    **changes: Any,
) -> Record:
    """A finished run of two tasks: R = [[first, 60], last]. Keys like `spec__threads` reach in."""
    name = method.partition("[")[0]
    record: Record = {
        "schema": 1,
        "id": "",
        "status": "done",
        "spec": {
            "benchmark": {"name": "two-tasks", "params": {}, "version": 1},
            "method": {"name": name, "params": {"label": method}, "version": 1, "source": None},
            "protocol": dict(PROTOCOL),
            "seed": seed,
            "threads": 1,
            "device": "cpu",
        },
        "labels": {"benchmark": "two-tasks", "method": method, "protocol": ""},
        "titles": {"benchmark": "Two Tasks", "method": TITLES.get(name, name)},
        "family": FAMILIES.get(name, "reference"),
        "zero_forgetting": False,
        "tasks": 2,
        "done": 2,
        "R": [[first, 60.0], list(last)],
        "R0": [50.0, 48.0],
        "curve": [],
        "memory": {"architecture": 1_080_000, "replay": 0, "auxiliary": 2_160_000},
        "seconds": {"total": 4.0 + seed, "train": [2.0, 2.0], "eval": [0.0, 0.0]},
        "data": {"mnist-5k": {"sha256": "ab" * 32, "note": ""}},
        "provenance": {},
        "failure": None,
    }
    for path, value in changes.items():
        *parents, key = path.split("__")
        inside = record
        for parent in parents:
            inside = inside[parent]
        inside[key] = value
    text = json.dumps([record["spec"], record["labels"]], sort_keys=True)
    record["id"] = record["id"] or hashlib.sha256(text.encode()).hexdigest()[:12]
    return record


@pytest.fixture
def record() -> Callable[..., Record]:
    return make_record


@pytest.fixture
def grid() -> list[Record]:
    """Four methods, two seeds: joint is the bound, pnn forgets nothing, finetune a lot."""
    records = []
    for seed in (0, 1):
        records += [
            make_record("finetune", seed, (60.0 + seed, 90.0)),
            make_record("ewc[strength=500]", seed, (85.0 + seed, 80.0)),
            make_record(
                "pnn",
                seed,
                (95.0, 82.0 - seed),
                zero_forgetting=True,
                memory__architecture=2_500_000,
            ),
            make_record("agem", seed, (91.0, 81.0 + seed), memory__replay=815_360),
            make_record("joint", seed, (96.0, 85.0), R=[[None, None], [96.0, 85.0]]),
        ]
    return records


@pytest.fixture
def cifar() -> list[Record]:
    """20-Split CIFAR100 beside the paper: a match, better, no row there, another budget."""

    def of(method: str, accuracy: float, **changes: Any) -> Record:
        return make_record(
            method,
            spec__benchmark={"name": "split-cifar100", "params": {"tasks": 20}, "version": 1},
            labels__benchmark="split-cifar100",
            titles__benchmark="20-Split CIFAR100",
            tasks=20,
            done=20,
            R=[[accuracy] * 20] * 20,
            R0=[20.0] * 20,
            seconds={"total": 40.0, "train": [1.9] * 20, "eval": [0.1] * 20},
            **changes,
        )

    return [
        of("pnn", 75.29, zero_forgetting=True),
        of("finetune", 50.0),
        of("si", 60.0),
        of("er-res", 66.3, labels__protocol="epochs=1", spec__protocol__epochs=1),
    ]


@pytest.fixture
def save(tmp_path: Path) -> Callable[[list[Record]], Path]:
    """Write records where `clbench run --out` would; the folder."""

    def write(records: list[Record]) -> Path:
        folder = tmp_path / "results" / "records"
        folder.mkdir(parents=True, exist_ok=True)
        for one in records:
            (folder / f"{one['id']}.json").write_text(json.dumps(one))
        return tmp_path / "results"

    return write


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # a root user's chromium starts only without its sandbox; it sees our own file alone
        started = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Write the page of some records and open it from disk; an error of the page's fails the test.

    `page.bad` collects errors, dialogs and requests that leave the file.
    """
    contexts, pages = [], []

    def go(records: list[Record], url: str = "", **options: Any) -> Any:
        if not url:
            url = write(tables(records), tmp_path / "page", ["html"], records=records)[-1].as_uri()
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | options)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.bad = []
        page.on("console", lambda message: page.bad.append(message.text))
        page.on("pageerror", lambda error: page.bad.append(str(error)))
        page.on("dialog", lambda dialog: (page.bad.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((url.partition("#")[0], "data:", "blob:"))
                or page.bad.append(request.url)
            ),
        )
        page.goto(url)
        contexts.append(context)
        pages.append(page)
        return page

    yield go
    for page in pages:
        assert page.bad == []
    for context in contexts:
        context.close()


@pytest.fixture
def acl() -> Record:
    """A run with all that a record can hold."""
    without = {
        "nothing": 90.0,
        "shared_zeroed": 90.0,
        "shared_shuffled": 89.9,
        "private_zeroed": 50.0,
    }
    curve = [
        {"task": task, "epoch": epoch, "valid_accuracy": 70.0 + epoch, "loss": 1 / epoch}
        for task in (1, 2)
        for epoch in (1, 2, 3)
    ]
    return make_record(
        "acl",
        curve=curve,
        diagnostics=[{"shared_spread": 0.5}, {"without": {"1": without, "2": without}}],
        provenance={"host": "a-host", "versions": {"torch": "2.4"}},
    )
