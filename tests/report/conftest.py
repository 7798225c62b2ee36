"""Records as runs write them, small enough to work out by hand; and a browser to see pages in."""

import hashlib
import re
import shutil
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clbench.memory import Memory
from clbench.record import Clock, DataUse, Differs, Part, Record, Spec, Titles, Value
from clbench.record_file import encode
from clbench.report import tables, write

Open = Callable[..., Any]
PROTOCOL: dict[str, Value] = {
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
    benchmark: str = "two-tasks",
    protocol: dict[str, Value] | None = None,
    **changes: Any,
) -> Record:
    """A finished run of two tasks: R = [[first, 60], last].

    `method` and `benchmark` are labels, `protocol` what the user changed of it. Keys like
    `spec__threads` reach in.
    """
    name, params = parsed(method)
    stream, stream_params = parsed(benchmark)
    protocol = protocol or {}
    record = Record(
        id="",
        status="done",
        spec=Spec(
            benchmark=Part(name=stream, params=dict(stream_params), version=1),
            # the versions of today: a row of an older one would be marked or hidden
            method=Part(name=name, params=dict(params), version=2 if name == "joint" else 1),
            protocol=PROTOCOL | protocol,
            seed=seed,
            threads=1,
            device="cpu",
        ),
        differs=Differs(method=params, benchmark=stream_params, protocol=protocol),
        titles=Titles(benchmark="Two Tasks", method=TITLES.get(name, name)),
        family=FAMILIES.get(name, "reference"),
        upper_bound=name == "joint",
        tasks=2,
        done=2,
        R=[[first, 60.0], list(last)],
        R0=[50.0, 48.0],
        memory=Memory(architecture=1_080_000, auxiliary=2_160_000),
        seconds=Clock(total=4.0 + seed, train=[2.0, 2.0], eval=[0.0, 0.0]),
        data={"mnist-5k": DataUse(sha256="ab" * 32)},
    )
    for path, value in changes.items():
        *parents, key = path.split("__")
        inside: Any = record
        for parent in parents:
            inside = inside[parent] if isinstance(inside, dict) else getattr(inside, parent)
        if isinstance(inside, dict):
            inside[key] = value
        else:
            kind = typing.get_type_hints(type(inside), include_extras=True)[key]
            msgspec.structs.force_setattr(inside, key, msgspec.convert(value, kind))
    if "R" not in changes:
        record.R = record.R[: record.done]
    text = msgspec.json.encode([record.spec, record.differs])
    record.id = record.id or hashlib.sha256(text).hexdigest()[:12]
    return record


def parsed(label: str) -> tuple[str, dict[str, Value]]:
    """`ewc[strength=500]` -> its name and the values that are not the defaults."""
    if not re.fullmatch(r"[\w-]+\[\w+=[^,=]+(,\w+=[^,=]+)*\]", label):
        return label, {}
    name, _, inside = label[:-1].partition("[")
    pairs = (pair.split("=") for pair in inside.split(","))
    return name, {key: int(value) if value.isdecimal() else value for key, value in pairs}


def epochs(*tasks: int, **values: Any) -> list[dict[str, Any]]:
    """A learning curve with that many epochs per task, accuracies 71, 72, ... and falling loss."""
    return [
        {
            "task": task,
            "epoch": epoch,
            "lr": 0.05,
            "loss": 1 / epoch,
            "valid_loss": 1 / epoch,
            "valid_accuracy": 70.0 + epoch % 30,
        }
        | values
        for task, count in enumerate(tasks, 1)
        for epoch in range(1, count + 1)
    ]


@pytest.fixture
def record() -> Callable[..., Record]:
    return make_record


@pytest.fixture
def curve() -> Callable[..., list[dict[str, Any]]]:
    return epochs


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
            benchmark="split-cifar100",
            spec__benchmark__params={"tasks": 20},
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
        of("er-res", 66.3, protocol={"epochs": 1}),
    ]


@pytest.fixture
def save(tmp_path: Path) -> Callable[[list[Record]], Path]:
    """Write records where `clbench run --out` would; the folder."""

    def write(records: list[Record]) -> Path:
        folder = tmp_path / "results" / "records"
        folder.mkdir(parents=True, exist_ok=True)
        for one in records:
            (folder / f"{one.id}.json").write_bytes(encode(one))
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


OPEN = {
    "without": {"title": "Accuracy without a part", "kind": "without", "unit": "%"},
    "cost": {
        "title": "Cost of a part",
        "kind": "number",
        "unit": "points",
        "below": 0.5,
        "warning": "its part is idle: {value:.2f} points.",
    },
    "used": {"title": "Share in use", "kind": "layers", "unit": "%"},
    "spaces": {"title": "Latent spaces", "kind": "spaces", "names": ["S", "P"]},
}
"""A method that lays open an entry of each kind."""


@pytest.fixture
def by_class() -> Callable[..., Record]:
    """A class-incremental run of two tasks."""

    def of(seed: int = 0, shares: tuple[float, float] = (75.0, 25.0), **changes: Any) -> Record:
        return make_record(
            seed=seed,
            benchmark="two-tasks[scenario=class]",
            scenario="class",
            R=[[95.0, None], [70.0, 80.0]],
            R_given=[[97.0, None], [90.0, 96.0]],
            R0=[],
            confusion=[list(shares), [10.0, 90.0]],
            **changes,
        )

    return of


@pytest.fixture
def open_method() -> Record:
    """A run with all that a record can hold, of a method that the report has never heard of."""
    without = {"nothing": 90.0, "part_zeroed": 89.9}
    return make_record(
        "stranger",
        curve=epochs(3, 3),
        lays_open=OPEN,
        diagnostics=[
            {"cost": 0.75, "used": [10.0, 20.0]},
            {"cost": 0.125, "used": [30.0, 40.0], "without": {"1": without, "2": without}},
        ],
        provenance={"host": "a-host", "versions": {"torch": "2.4"}},
    )
