"""What may be averaged, what is kept apart, what is said in words, and what is printed bold."""

from collections.abc import Callable
from typing import Any

import pytest

from clbench.record import Record
from clbench.report import Table, tables
from clbench.report.frame import rows_frame, runs_frame
from clbench.report.table import MISSING

Make = Callable[..., Record]


def only(records: list[Record], **options: Any) -> Table:
    """The table of records that are all of one benchmark."""
    (table,) = tables(records, **options)
    return table


def names(table: Table) -> list[str]:
    return [row.name for row in table.rows]


def column(table: Table, key: str) -> list[str]:
    shown = next(c for c in table.columns if c.key == key)
    return [table.show(row, shown, "({})") for row in table.rows]


def test_seeds_are_averaged_with_the_sample_standard_deviation(record: Make) -> None:
    table = only([record("ewc", seed, (90.0, 80.0 + 2 * seed)) for seed in (0, 1, 2)])
    value = table.rows[0].value("acc")
    assert value is not None
    assert value.mean == pytest.approx(86.0)  # 85, 86, 87
    assert value.std == pytest.approx(1.0)  # divided by n - 1; by n it would be 0.816
    assert column(table, "bwt") == ["-5.00(0.00)"]


def test_one_seed_has_no_standard_deviation(record: Make) -> None:
    assert column(only([record()]), "acc") == ["85.00"]


def test_rows_go_by_family_then_name_and_references_come_last(grid: list[Record]) -> None:
    assert names(only(grid)) == ["ewc[strength=500]", "pnn", "agem", "finetune", "joint"]


def test_failed_and_unfinished_seeds_are_said_and_not_averaged(record: Make) -> None:
    good = record("ewc", 0)
    failed = record("ewc", 1, status="failed", done=0, R=[], data={})
    partial = record("ewc", 2, (10.0, 10.0), status="partial", done=1)
    table = only([good, failed, partial])
    assert names(table) == ["ewc"]
    assert table.rows[0].seeds == [0]
    assert column(table, "acc") == ["85.00"]
    assert table.warnings() == [
        "ewc: 1 of 3 seeds failed (seed 1), 1 unfinished (seed 2: 1 of 2 tasks)."
    ]


def test_a_method_that_only_failed_keeps_a_row_without_numbers(record: Make) -> None:
    table = only([record("agem"), record("ewc", status="failed", R=[], data={})])
    assert names(table) == ["ewc", "agem"]
    assert column(table, "acc") == [MISSING, "85.00"]
    assert table.warnings() == ["ewc: 1 of 1 seed failed (seed 0)."]


def test_files_that_could_not_be_read_are_counted(record: Make) -> None:
    table = only([record("ewc", 0)], problems=["some file is skipped.", "another."])
    assert table.warnings() == ["2 records could not be read and may be missing here."]


@pytest.mark.parametrize(
    ("change", "marks"),
    [
        ({"spec__threads": 2}, ["", "threads=2"]),
        ({"spec__device": "cuda"}, ["", "device=cuda"]),
        ({"protocol": {"epochs": 2}}, ["", "epochs=2"]),
        ({"spec__protocol__lr": 0.1}, ["", "lr=0.1"]),
        ({"data": {"mnist-5k": {"sha256": "d" * 64}}}, ["", "mnist-5k sha256=dddddddd"]),
        (
            {"data": {"mnist-5k": {"sha256": "ab" * 32, "note": "subset: 9 of 18 images"}}},
            ["", "mnist-5k: subset: 9 of 18 images"],
        ),
    ],
)
def test_runs_that_differ_in_more_than_the_seed_are_rows_of_their_own(
    record: Make, change: Record, marks: list[str]
) -> None:
    # A neighbour makes the first of the two the usual setting; `ewc` has one seed in each.
    table = only([record("agem"), record("ewc", 0), record("ewc", 1, (70.0, 70.0), **change)])
    rows = [row for row in table.rows if row.head.method == "ewc"]
    assert sorted(row.mark for row in rows) == marks
    assert sorted(column(table, "acc")) == ["70.00", "85.00", "85.00"]


@pytest.mark.parametrize(
    ("older", "newer", "mark"),
    [
        ({}, {"spec__method__version": 2}, "ewc@v1"),
        ({"spec__method__source": "c" * 64}, {"spec__method__source": "d" * 64}, "ewc@cccc"),
        ({}, {"spec__method__source": "d" * 64}, "ewc@v1"),
    ],
)
def test_runs_by_two_codes_are_never_averaged(
    record: Make, older: dict[str, Any], newer: dict[str, Any], mark: str
) -> None:
    days = ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")
    old = record("ewc", 0, finished=days[0], **older)
    new = record("ewc", 1, (70.0, 70.0), finished=days[1], **newer)
    assert names(only([old, new])) == ["ewc", mark]
    both = tables([old, record("ewc", 1, finished=days[1], spec__benchmark__version=2)])
    assert [table.benchmark for table in both] == ["two-tasks", "two-tasks@v1"]


def test_what_a_user_changed_is_marked_even_if_most_rows_have_it(record: Make) -> None:
    short = {"protocol": {"epochs": 2}}
    table = only([record("ewc"), record("ewc", **short), record("agem", **short)])
    assert names(table) == ["ewc", "ewc (epochs=2)", "agem (epochs=2)"]
    assert table.new_block(1)
    assert "epochs=200" in " ".join(table.facts)


def test_a_table_made_entirely_under_a_changed_protocol_says_so(record: Make) -> None:
    table = only([record(protocol={"epochs": 2})])
    assert names(table) == ["ewc"]
    assert any(f.startswith("Protocol (changed by the user: epochs=2)") for f in table.facts)


def test_zero_is_printed_only_where_it_is_promised_and_measured(record: Make) -> None:
    promised = record("pnn", 0, (95.0, 80.0), zero_forgetting=True)
    lucky = record("ewc", 0, (95.0, 80.0))
    table = only([promised, lucky])
    assert column(table, "bwt") == ["0.00", "Zero"]
    assert table.warnings() == []


def test_a_broken_promise_of_zero_is_printed_as_measured_and_warned_about(record: Make) -> None:
    kept = record("pnn", 0, (95.0, 80.0), zero_forgetting=True)
    broken = record("pnn", 1, (94.8, 80.0), zero_forgetting=True)
    table = only([kept, broken])
    assert column(table, "bwt") == ["-0.10(0.14)"]
    assert table.warnings() == [
        "pnn: declared free of forgetting, yet the accuracy on an earlier task changed (BWT -0.1)."
    ]


def test_bold_is_for_the_best_competitor_not_for_a_reference(grid: list[Record]) -> None:
    table = only(grid)
    assert table.best == {(1, "acc"), (1, "bwt")}  # pnn; joint has the higher ACC


def test_bold_compares_only_what_was_made_under_one_condition(record: Make) -> None:
    short = {"protocol": {"epochs": 2}}
    table = only([record("ewc", 0, (80.0, 80.0)), record("agem", 0, (90.0, 90.0), **short)])
    assert table.best == frozenset()


def test_values_that_print_alike_are_equally_bold(record: Make) -> None:
    table = only(
        [
            record("ewc", 0, (90.0, 80.001)),
            record("agem", 0, (90.0, 80.002)),
            record("pnn", 0, (90.0, 70.0)),
        ]
    )
    assert {names(table)[row] for row, key in table.best if key == "acc"} == {"ewc", "agem"}


def test_intransigence_takes_joint_of_the_same_seed_and_condition(grid: list[Record]) -> None:
    table = only(grid, columns=("intransigence",))
    assert column(table, "intransigence")[0] == "5.00(0.00)"  # 85 - 80
    without_one = [r for r in grid if (r.spec.method.name, r.spec.seed) != ("joint", 1)]
    table = only(without_one, columns=("intransigence",))
    assert column(table, "intransigence") == [MISSING] * 4 + ["0.00"]
    assert "finetune (seed 1)" in table.warnings()[-1]


def test_mean_intransigence_takes_a_joint_that_trained_for_every_task(
    grid: list[Record], record: Make
) -> None:
    table = only(grid, columns=("mean-intransigence",))
    assert column(table, "mean-intransigence") == [MISSING] * 5
    assert "joint, tested after every task" in table.warnings()[-1]
    grid += [record("joint[each=true]", seed, (96.0, 85.0), 97.0) for seed in (0, 1)]
    table = only(grid, columns=("mean-intransigence",))
    assert column(table, "mean-intransigence")[0] == "3.50(0.00)"  # ((97 - 95) + (85 - 80)) / 2


def test_a_method_left_out_of_the_table_still_serves_as_reference(grid: list[Record]) -> None:
    table = only(grid, columns=("intransigence",), keep=lambda run: run.method == "pnn")
    assert names(table) == ["pnn"]
    assert column(table, "intransigence") == ["3.50(0.71)"]


def test_seeds_that_differ_between_rows_are_said(record: Make) -> None:
    table = only([record("ewc", 0), record("ewc", 1), record("agem", 0), record("agem", 5)])
    assert table.warnings() == ["The seeds are 0, 1, but for agem: 0, 5."]


def test_long_times_are_shown_in_a_unit_one_can_read(record: Make) -> None:
    assert "time s" in only([record(seconds__total=599.0)]).headings()
    table = only([record(seconds__total=5400.0)])
    assert "time min" in table.headings()
    assert column(table, "time") == ["90.0"]


def test_frames_hold_the_runs_and_the_means(grid: list[Record], record: Make) -> None:
    records = [*grid, record("ewc", 5, status="failed", R=[], data={})]
    runs = runs_frame(records)
    assert len(runs) == 11
    assert runs["acc"].isna().sum() == 1  # the failed one
    agem = runs[(runs.method == "agem") & (runs.seed == 1)].iloc[0]
    assert (agem.acc, agem.bwt, agem.replay_mb) == (86.5, -4.0, 0.81536)
    rows = rows_frame(records).set_index("method")
    assert rows.loc["agem", "acc_mean"] == 86.25
    assert rows.loc["agem", "n"] == 2
    assert rows.loc["ewc", "n"] == 0


def test_no_records_no_tables_and_empty_frames() -> None:
    assert tables([]) == []
    assert runs_frame([]).empty
    assert rows_frame([]).empty


def test_a_copy_of_a_run_is_not_counted_again(record: Make) -> None:
    copy = record("ewc", 0, id="f" * 12)
    table = only([record("ewc", 0), copy])
    assert table.rows[0].seeds == [0]
    assert f"ewc: seed 0 (run {'f' * 12}) left out: it is run" in table.warnings()[0]


def test_the_newest_joint_is_the_reference_and_is_named(record: Make) -> None:
    old = record("joint", 0, last=(97.0, 90.0), finished="2026-01-01T00:00:00+00:00")
    new = record(
        "joint", 0, last=(97.0, 85.0), finished="2026-02-01T00:00:00+00:00", spec__protocol__lr=0.2
    )
    table = only([record("ewc", 0, last=(90.0, 80.0)), old, new], columns=("intransigence",))
    assert column(table, "intransigence")[0] == "5.00"  # 85 - 80
    assert any("measured against joint (lr=0.2)" in warning for warning in table.warnings())


@pytest.mark.parametrize(
    ("better", "other"),
    [
        ({"method": "joint[each=true]"}, {"R": [[None, None], [97.0, 85.0]]}),
        ({}, {"method": "joint[each=true]", "finished": "2026-02-01T00:00:00+00:00"}),
        ({"spec__method__version": 3}, {"finished": "2026-02-01T00:00:00+00:00"}),
        ({"spec__method__version": 10}, {"spec__method__version": 9}),
    ],
)
def test_the_better_reference_is_taken(
    record: Make, better: dict[str, Any], other: dict[str, Any]
) -> None:
    """By tests after every task, then without parameters, then by version, then by date."""
    bounds = [
        record(**{"method": "joint", "last": (97.0, accuracy)} | changes)
        for accuracy, changes in ((90.0, better), (85.0, other))
    ]
    table = only([record("ewc", 0, last=(90.0, 80.0)), *bounds], columns=("intransigence",))
    assert column(table, "intransigence")[0] == "10.00"  # 90 - 80


def test_any_method_can_be_the_upper_bound(record: Make) -> None:
    bound = record("all-at-once", 0, last=(97.0, 90.0), upper_bound=True)
    table = only([record("ewc", 0, last=(90.0, 80.0)), bound], columns=("intransigence",))
    assert column(table, "intransigence")[0] == "10.00"  # 90 - 80
    table = only([record("ewc", 1), bound], columns=("intransigence",))
    assert "a finished run of all-at-once" in table.warnings()[-1]


def test_one_task_has_no_bwt(record: Make) -> None:
    one = {"tasks": 1, "done": 1, "R": [[90.0]], "R0": [10.0]}
    table = only([record("ewc", **one), record("pnn", zero_forgetting=True, **one)])
    assert column(table, "bwt") == [MISSING, MISSING]


IDLE = {"part": {"title": "T", "kind": "number", "below": 0.5, "warning": "idle: {value:.1f}"}}


def cost(record: Make, seed: int, value: float | None, warning: str = "idle: {value:.1f}") -> Any:
    shown = {"part": IDLE["part"] | {"warning": warning}}
    return record("mine", seed, lays_open=shown, diagnostics=[{"part": 0.0}, {"part": value}])


@pytest.mark.parametrize(
    ("values", "warned"),
    [([0.2, 0.6], "mine: idle: 0.4"), ([0.2, 0.9], None), ([0.2, None], None)],
)
def test_a_declared_threshold_warns_of_the_mean_over_seeds(
    record: Make, values: list[float | None], warned: str | None
) -> None:
    table = only([cost(record, seed, value) for seed, value in enumerate(values)])
    assert table.warnings() == ([warned] if warned else [])


@pytest.mark.parametrize(
    "text", ["{oops}", "{value.__class__}", "{value:99999999999}", "{", "{0}", "{value!r}"]
)
def test_a_warning_that_cannot_be_filled_in_stays_as_it_is(record: Make, text: str) -> None:
    assert only([cost(record, 0, 0.25, text)]).warnings() == [f"mine: {text}"]
