"""Published tables: every file is whole, a user's own is checked, and each stands beside the rows
of its stream and scenario alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench import papers
from clbench.errors import UserError
from clbench.papers import Paper, Published, find_paper, named_paper, own_paper
from clbench.record import Record
from clbench.registry import declarations, select
from clbench.report import lacking, latex, markdown, tables, terminal
from clbench.report.paper import versus
from clbench.report.runs import runs_of

OWN = """
title = "A table"
benchmark = "split-mnist"
scenario = "class"
tasks = 5
setting = "an invented network"
runs = 3

[paper]
cite = "Somebody, 2030"
title = "A paper"

[protocol]
epochs = 1

[[rows]]
title = "SGD"
method = "finetune"
acc = [20.0, 0.5]
given = [95.0]

[[rows]]
title = "Unknown"
foreign = true
acc = [99.0]
"""
NAMES = papers.names()


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., str]:
    """Write a table of one's own, with some text in place of other; the path."""

    def write(*changes: tuple[str, str]) -> str:
        text = OWN
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return str(path)

    return write


def measured(make: Callable[..., Record], method: str = "finetune", **changes: Any) -> Record:
    """A record of split-mnist[scenario=class], trained for one epoch."""
    usual: dict[str, Any] = {
        "benchmark": "split-mnist[scenario=class]",
        "scenario": "class",
        "tasks": 5,
        "done": 5,
        "R": [[20.5] * 5] * 5,
        "R0": [10.0] * 5,
        "R_given": [[94.0] * 5] * 5,
        "protocol": {"epochs": 1},
    }
    return make(method, **usual | changes)


# ---- the files that come with clbench ----


def test_the_default_paper_comes_first() -> None:
    assert NAMES[0] == "acl-2020"
    assert len(NAMES) > 1


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_a_paper_is_a_table_of_it(name: str) -> None:
    paper = find_paper(name)
    folder = Path(__file__).parents[2] / "results" / "published" / name
    found = {path.stem for path in folder.iterdir()} - {"paper"}
    assert found == set(paper.tables)
    assert paper.citation.title
    assert paper.citation.url
    assert paper.cite.endswith(name[-4:])  # the year
    for table in paper.tables.values():
        assert table.rows or table.sizes
        assert {row.mark for row in table.rows} >= set(table.marks)
        assert table.setting or table.sizes


@pytest.mark.parametrize(
    "row", [row for name in NAMES for row in find_paper(name).rows], ids=lambda row: row.where
)
def test_every_row_is_a_method_and_a_stream_of_clbench_or_declared_foreign(row: Published) -> None:
    [(stream, _)] = select("benchmark", row.benchmark)
    scenario = stream.fields.get("scenario")
    assert row.scenario in (scenario.choices if scenario else ("task",))
    assert row.tasks > 1
    for method in (row.method, *row.also) if row.method else ():
        [(declaration, _)] = select("method", method)
        assert declaration.name in declarations("method")


@pytest.mark.parametrize("name", NAMES)
def test_no_two_tables_disagree_on_a_number(name: str) -> None:
    seen: dict[Any, Published] = {}
    for row in find_paper(name).rows:
        if row.method and row.acc is not None:
            first = seen.setdefault((row.stream, row.tasks, row.method), row)
            assert (first.acc, first.acc_std) == (row.acc, row.acc_std), row.where


def test_published_numbers_that_were_deleted_with_the_runs_are_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path)
    with pytest.raises(UserError, match="git checkout results/published"):
        find_paper.__wrapped__("acl-2020")


# ---- beside measured rows ----


def test_it_stands_beside_rows_of_its_stream_and_scenario_alone(
    record: Callable[..., Record], own: Callable[..., str]
) -> None:
    paper = own_paper(own())

    def beside(**changes: Any) -> Any:
        return versus(runs_of([measured(record, **changes)]), [paper])

    assert beside() is not None
    assert beside(benchmark="split-mnist", scenario="task") is None
    assert beside(benchmark="split-mnist-5k[scenario=class]") is None
    assert beside(benchmark="split-mnist[scenario=class,odd=1]") is None


def test_a_domain_incremental_stream_is_not_the_task_incremental_one(
    record: Callable[..., Record],
) -> None:
    acl = find_paper("acl-2020")
    made = measured(record, "ewc", benchmark="permuted-mnist[scenario=domain]", scenario="domain")
    assert versus(runs_of([made]), [acl]) is None
    made = measured(record, "ewc", benchmark="permuted-mnist", scenario="task")
    assert versus(runs_of([made]), [acl]) is not None


def test_headings_caption_and_word_name_the_paper(
    record: Callable[..., Record], own: Callable[..., str]
) -> None:
    [table] = tables([measured(record)], vs_paper=True, papers=[own_paper(own())])
    headings = [column.heading for column in table.columns if column.published]
    whose = "Somebody, 2030"
    assert headings == [f"{whose} ACC %", f"{whose} given %", f"vs {whose}"]
    text = " ".join(terminal([table], 300).split())
    assert "matches (+0.50 pp, +1.0 sd)" in text
    assert "Somebody, 2030: as published in A paper." in text
    assert "Setting of Somebody, 2030: an invented network." in text
    tex = latex.render(table)
    assert "& Somebody, & Somebody, & vs Somebody," in tex
    assert "2030 ACC \\% & 2030 given \\%" in tex
    assert "| Somebody, 2030 ACC % |" in markdown.render(table)


def test_the_name_of_a_paper_is_shown_and_never_obeyed(
    record: Callable[..., Record], own: Callable[..., str]
) -> None:
    path = own(("Somebody, 2030", "A & B <b>$x_1$ \\\\input{x}"), ("A paper", "50 % of | #"))
    [table] = tables([measured(record)], vs_paper=True, papers=[own_paper(path)])
    tex, text = latex.render(table), markdown.render(table)
    assert "$x_1$" not in tex
    assert "\\input{x}" not in tex
    assert "of | #" not in text
    assert "<b>" not in text


def test_the_budget_is_the_one_that_the_table_declares(
    record: Callable[..., Record], own: Callable[..., str]
) -> None:
    def word(text: str, **protocol: Any) -> str:
        [table] = tables([measured(record, protocol=protocol)], papers=[own_paper(text)])
        assert table.versus is not None
        found = table.versus.verdict(table.rows[0])
        return found.word if found else ""

    assert word(own(), epochs=1) == "matches"
    assert word(own(), epochs=2) == "not comparable: other budget"
    assert word(own()) == "not comparable: other budget"  # the benchmark's own epochs
    assert word(own(), epochs=1, lr=0.5) == "not comparable: other budget"
    path = own(("acc = [20.0, 0.5]", "acc = [20.0, 0.5]\nprotocol = {lr = 0.5}"))
    assert word(path, epochs=1, lr=0.5) == "matches"
    assert word(path, epochs=1) == "not comparable: other budget"


def test_a_method_that_only_the_records_know_is_no_mistake(
    record: Callable[..., Record], own: Callable[..., str]
) -> None:
    paper = own_paper(own(('"finetune"', '"my-own[x=3]"')))
    [table] = tables([measured(record, "my-own[x=3]")], papers=[paper])
    assert table.versus is not None
    assert table.versus.verdict(table.rows[0]) is not None
    with pytest.raises(UserError, match=r"row 1 \(SGD\): Unknown method 'my-own'"):
        tables([measured(record)], papers=[paper])


# ---- bad input ----


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("title = ", "title", "is not valid TOML"),
        ("[paper]", "[papre]", "it needs [paper] with cite and title"),
        ('cite = "Somebody, 2030"', "", "paper: it lacks"),
        ('scenario = "class"', 'scenario = "clas"', "scenario: invalid enum value"),
        ('scenario = "class"', "", "must say tasks and scenario"),
        ("acc = [20.0, 0.5]", "acc = [120.0]", "rows[0].acc[0]: expected float <= 100"),
        ("acc = [20.0, 0.5]", "acc = [nan]", "rows[0].acc[0]"),
        ("acc = [20.0, 0.5]", "acc = [inf]", "rows[0].acc[0]"),
        ("acc = [20.0, 0.5]", "acc = [20.0, -0.5]", "rows[0].acc[1]: expected float >= 0"),
        ("acc = [20.0, 0.5]", "acc = [1, 2, 3]", "rows[0].acc: expected array of length <= 2"),
        ("acc = [20.0, 0.5]", "bwt = [-1.0, -1.0]", "the standard deviation of bwt is negative"),
        ("acc = [99.0]", "", "row 2 (Unknown): it has no number"),
        ("acc = [99.0]", "mark = 'x'\nacc = [99.0]", "Unknown mark"),
        ('method = "finetune"', "", "row 1 (SGD): give its method as clbench has it"),
        ("foreign = true", "foreign = true\nmethod = 'ewc'", "or foreign = true"),
        ('"finetune"', '"./evil.py"', "its method './evil.py' must be one name"),
        ('"finetune"', '"evil.py"', "must be one name"),
        ('"finetune"', '"ewc,finetune"', "must be one name"),
        ('"finetune"', '"@all"', "must be one name"),
        ('"split-mnist"', '"./evil.py"', "its benchmark './evil.py' must be one name"),
        ('"split-mnist"', '"split-mnist[tasks=5]"', "give tasks and scenario as keys"),
        ("tasks = 5", "tasks = 100_000", "tasks: expected int <= 500"),
        ("epochs = 1", "epoch = 1", "protocol: 'epoch'. Did you mean 'epochs'"),
        ("epochs = 1", "epochs = 0", "epochs=0 is not"),
        ("epochs = 1", 'backbone = "./evil.py"', "names the file './evil.py'"),
        ("runs = 3", "runs = 3\nextra = 1", "unknown field extra"),
        ("A table", "A \\u001b[31mtable", "has characters that cannot be printed"),
        ("runs = 3", f"runs = {10**30}", "a number of more than 64 bits"),
        ("A table", "x" * 30_000, "more than 20,000 characters"),
        ("Unknown", "x" * 200, "rows[1].title: expected str of length <= 120"),
    ],
)  # fmt: skip
def test_a_bad_table_is_a_sentence(
    own: Callable[..., str], old: str, new: str, sentence: str
) -> None:
    path = own((old, new))
    with pytest.raises(UserError) as caught:
        own_paper(path)
    assert sentence in str(caught.value)
    assert path in str(caught.value)


def test_a_table_is_read_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OWN + "#" * 10**6)
    with pytest.raises(UserError, match="at most 1,000,000 are read"):
        own_paper(str(path))
    path.write_text(OWN + '[[rows]]\ntitle = "x"\nforeign = true\nacc = [1]\n' * 1000)
    with pytest.raises(UserError, match="rows: expected array of length <= 1000"):
        own_paper(str(path))
    for where in (tmp_path, "/dev/zero"):
        with pytest.raises(UserError, match=r"it is not a regular file|Is a directory"):
            own_paper(str(where))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--vs-paper", "acl-2021"), "Unknown published paper 'acl-2021'. Did you mean 'acl-2020'"),
        (("--vs-paper", "acl-2020"), "acl-2020 has no numbers for split-mnist, scenario class."),
        (("--vs", "nowhere.toml"), "nowhere.toml: No such file"),
        (("--vs", "nowhere"), "--vs takes a file that ends in .toml"),
        (("--vs-paper", "acl-2020", "--vs", "mine.toml"), "name two papers: give one"),
    ],
)
def test_mistakes_are_a_sentence_and_exit_code_2(
    clbench: Callable[..., Any],
    record: Callable[..., Record],
    save: Callable[..., Path],
    words: tuple[str, ...],
    sentence: str,
) -> None:
    result = clbench("report", *words, "--out", str(save([measured(record)])))
    assert (result.code, "Traceback" in result.err) == (2, False)
    assert sentence in result.err


def test_without_a_name_it_is_the_first_paper_that_fits(
    clbench: Callable[..., Any], record: Callable[..., Record], save: Callable[..., Path]
) -> None:
    out = str(save([measured(record, "ewc", benchmark="split-mnist", scenario="task")]))
    for words in (("--vs-paper",), ("--vs-paper", "acl-2020")):
        assert "vs Ebrahimi et al., 2020" in clbench("report", *words, "--out", out).out
    out = str(save([record("ewc", benchmark="nobodys")]))
    [clbench_knows, nobody] = tables(
        [measured(record, "ewc", benchmark="split-mnist", scenario="task"),
         record("ewc", benchmark="nobodys")], vs_paper=True,
    )[::-1]  # fmt: skip
    assert clbench_knows.versus is not None
    assert [column for column in nobody.columns if column.published] == []


def test_a_stream_that_no_paper_has_is_a_warning(
    clbench: Callable[..., Any], record: Callable[..., Record], save: Callable[..., Path]
) -> None:
    result = clbench("report", "--vs-paper", "--out", str(save([record("ewc")])))
    assert result.code == 0
    assert "Warning: No paper has numbers for two-tasks, scenario task." in result.err
    assert "90.00" in result.out or "85.00" in result.out
    assert lacking(tables([record("ewc")])) != ""


# ---- ls and new ----


def test_ls_has_papers_and_their_tables(clbench: Callable[..., Any]) -> None:
    text = clbench("ls published").out
    assert "acl-2020" in text
    assert "20-Split miniImageNet" in text
    rows = json.loads(clbench("ls published --json").out)
    assert {row["name"] for row in rows} == set(NAMES)
    mine = [r for r in rows if r["name"] == "acl-2020" and r["table"] == "Permuted MNIST"]
    assert [(r["scenario"], r["tasks"], r["rows"]) for r in mine] == [
        ("task", [10, 20, 30, 40], 13)
    ]


def test_a_new_table_is_commented_and_works_as_it_is(
    clbench: Callable[..., Any],
    record: Callable[..., Record],
    save: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = clbench("new published my-paper")
    assert result.code == 0
    assert "clbench report --vs my_paper.toml" in result.out
    text = Path("my_paper.toml").read_text()
    assert sum("#" in line for line in text.splitlines()) > 15
    made = record(
        "finetune", benchmark="split-mnist-5k", tasks=5, done=5, R=[[84.0] * 5] * 5, R0=[50.0] * 5
    )
    out = save([made])
    shown = clbench("report", "--vs", "my_paper.toml", "--out", str(out))
    assert shown.code == 0, shown.err
    assert "vs My Paper, 2020" in shown.out
    assert "matches (-1.00 pp, -0.7 sd)" in shown.out
    assert isinstance(named_paper("my_paper.toml"), Paper)
    compared = clbench("compare", "my_paper.toml", "finetune", "--out", str(out))
    assert compared.code == 0, compared.err
    assert "A = my_paper.toml" in compared.out
    assert clbench("new published my-paper").code == 2
    assert "is taken" in clbench("new published acl-2020").err
