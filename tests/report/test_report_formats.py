"""The exact text of each format, that it is the same every time, and that names are only shown."""

import csv
import io
import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench.errors import UserError
from clbench.record import Record
from clbench.report import EXTRA, tables, terminal, write
from clbench.report.escape import clean, latex, markdown, slug
from clbench.report.write import TABLES, render

Make = Callable[..., Record]
NASTY = r"""a\b_c%d&e#f$g{h}i~j^k<l>m|n"o'p`q[r]*s--t é 中 <script>"""


@pytest.fixture
def few(grid: list[Record]) -> list[Record]:
    """ewc and pnn of the grid, and the bound."""
    return [r for r in grid if r.spec.method.name in ("ewc", "pnn", "joint")]


def text_of(records: list[Record], name: str, **options: Any) -> str:
    (table,) = tables(records)
    return render(table, name, **options)


TERMINAL = """\
Two Tasks (two-tasks)

method                    ACC %         BWT %  arch MB  replay MB     time s  seeds
-----------------  ------------  ------------  -------  ---------  ---------  -----
ewc[strength=500]  82.75 ± 0.35  -9.50 ± 0.71     1.08       0.00  4.5 ± 0.7      2
pnn                88.25 ± 0.35          Zero     2.50       0.00  4.5 ± 0.7      2
joint              90.50 ± 0.00             \N{EN DASH}     1.08       0.00  4.5 ± 0.7      2

a ± b: mean and sample standard deviation over 2 seeds (0, 1).
T = 2 tasks. Task-incremental: one head per task, and the task is known in tests. Protocol: lr=0.05,
momentum=0, weight_decay=0, batch_size=64, epochs=200, patience=5, lr_factor=3, lr_min=0.0001,
valid=0.15. Data: mnist-5k. Zero: free of forgetting by construction, and measured so. Run on cpu
with 1 thread.
R[k,i]: test accuracy (%) on task i after learning task k. ACC: mean over all tasks i of R[T,i].
BWT: sum over i < T of R[T,i] - R[i,i], divided by T - 1. Memory: 4 bytes per number, MB = 10^6
bytes. Time: wall clock of a whole run.
"""


def test_terminal(few: list[Record]) -> None:
    assert terminal(tables(few), 100) == TERMINAL


def test_markdown(few: list[Record]) -> None:
    lines = text_of(few, "md").splitlines()
    assert lines[:8] == [
        "## Two Tasks",
        "",
        "| method | ACC % | BWT % | arch MB | replay MB | time s | seeds |",
        "| :--- | ---: | ---: | ---: | ---: | ---: | ---: |",
        r"| ewc\[strength=500\] | 82.75 ± 0.35 | -9.50 ± 0.71 | 1.08 | 0.00 | 4.5 ± 0.7 | 2 |",
        "| pnn | **88.25 ± 0.35** | **Zero** | 2.50 | 0.00 | 4.5 ± 0.7 | 2 |",
        "| joint | 90.50 ± 0.00 | \N{EN DASH} | 1.08 | 0.00 | 4.5 ± 0.7 | 2 |",
        "",
    ]
    assert lines[8].startswith("Benchmark: two-tasks. a ± b: mean and sample standard deviation")
    assert lines[8].endswith("Bold: best of a column, references aside.")


def test_csv_holds_every_column_with_its_unit(few: list[Record]) -> None:
    rows = list(csv.DictReader(io.StringIO(text_of(few, "csv"))))
    assert [row["method"] for row in rows] == ["ewc[strength=500]", "pnn", "joint"]
    first, joint = rows[0], rows[2]
    assert (first["acc_mean"], first["acc_std"]) == ("82.75", "0.353553")
    assert (first["bwt_mean"], first["fwt_mean"], first["aux_mb_mean"]) == ("-9.5", "12.0", "2.16")
    assert (first["seeds"], first["n"], first["failed"], first["unfinished"]) == (
        "0 1",
        "2",
        "0",
        "0",
    )
    assert joint["bwt_mean"] == ""


def test_json_holds_values_formulas_and_what_the_rows_were_made_of(few: list[Record]) -> None:
    document = json.loads(text_of(few, "json"))
    assert document["schema"] == 1
    assert document["formulas"]["bwt"].startswith("BWT: sum over i < T")
    ewc, pnn, joint = document["rows"]
    assert ewc["values"]["acc"] == {"mean": 82.75, "std": 0.353553}
    assert ewc["setting"]["protocol.epochs"] == "200"
    assert len(ewc["runs"]) == 2
    assert pnn["zero_forgetting"] is True
    assert joint["values"]["bwt"] is None


LATEX = r"""
\label{tab:clbench-two-tasks}
\small\setlength{\tabcolsep}{4pt}
\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%
\begin{tabular}{@{}lrrrrrr@{}}
\toprule
method & ACC & BWT & arch & replay & time & seeds \\
 & \% & \% & MB & MB & s &  \\
\midrule
EWC {[}strength=500{]} & 82.75(0.35) & $-$9.50(0.71) & 1.08 & 0.00 & 4.5(0.7) & 2 \\
PNN & \textbf{88.25(0.35)} & \textbf{Zero} & 2.50 & 0.00 & 4.5(0.7) & 2 \\
\midrule
ORD-JT & 90.50(0.00) & -- & 1.08 & 0.00 & 4.5(0.7) & 2 \\
\bottomrule
\end{tabular}}
\end{table}
"""


def test_latex(few: list[Record]) -> None:
    text = text_of(few, "tex")
    start = text.index("\n\\label")
    assert text[start:] == LATEX
    caption = text[:start]
    for part in (
        "a(b): mean and sample standard deviation over 2 seeds (0, 1).",
        r"$\mathrm{ACC}=\frac{1}{T}\sum_{i=1}^{T}R_{T,i}$",
        r"$\mathrm{BWT}=\frac{1}{T-1}\sum_{i=1}^{T-1}(R_{T,i}-R_{i,i})$",
        r"Protocol: lr=0.05, momentum=0, weight\_decay=0, batch\_size=64, epochs=200,",
    ):
        assert part in caption
    assert r"\documentclass" not in text
    assert text_of(few, "tex", standalone=True).startswith(r"\documentclass{article}")


def test_latex_falls_back_to_typed_names_where_two_methods_share_a_title(record: Make) -> None:
    text = text_of([record("ewc"), record("agem", titles__method="EWC")], "tex")
    assert "\newc &" in text
    assert "\nagem &" in text


def test_data_notes_and_warnings_are_in_every_format(record: Make) -> None:
    note = {"mnist-5k": {"sha256": "e" * 64, "note": "subset: 2,000 of 18,724 images"}}
    records = [record("ewc", 0, data=note), record("ewc", 1, status="failed", data={}, R=[])]
    texts = [text_of(records, name) for name in ("md", "tex", "json")] + [terminal(tables(records))]
    for text in texts:
        words = " ".join(text.split())
        assert "mnist-5k (subset: 2,000 of 18,724 images)" in words
        assert "1 of 2 seeds failed (seed 1)" in words


def test_the_same_records_give_the_same_bytes(grid: list[Record], record: Make) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return value

    short = {"protocol": {"epochs": 2}}
    grid += [record("ewc", seed, **short) for seed in (0, 1)]
    grid += [record("ewc", 3, status="failed", R=[], data={}), record("ewc", 4, status="partial")]
    grid += [record("ewc", 0, spec__method__version=v) for v in (1, 2)]
    before = [text_of(grid, name) for name in TABLES] + [terminal(tables(grid, columns=EXTRA))]
    for seed in range(5):
        shuffled = [turned(one) for one in grid]
        random.Random(seed).shuffle(shuffled)
        after = [text_of(shuffled, name) for name in TABLES]
        assert [*after, terminal(tables(shuffled, columns=EXTRA))] == before


def test_latex_escaping() -> None:
    assert latex(r"\_%&#$") == r"\textbackslash{}\_\%\&\#\$"
    assert latex("{}~^") == r"\{\}\textasciitilde{}\textasciicircum{}"
    assert latex('<|>"`') == r"\textless{}\textbar{}\textgreater{}''\textasciigrave{}"
    assert latex("a-b --c") == "a-b -{}-c"
    assert latex("[x]") == "{[}x{]}"
    assert latex("é中\x1b") == "é{[}U+4E2D{]}"


def test_markdown_escaping() -> None:
    assert markdown("a|b`c`<b>&*_[x]") == r"a\|b\`c\`&lt;b&gt;&amp;\*\_\[x\]"


def test_control_characters_never_reach_a_terminal(record: Make) -> None:
    assert clean("a\x1b[31m\u202eb\nc\td\ud800") == "a[31mb c d"
    text = terminal(tables([record("e\x1b]0;title\x07wc\r\n\u009b2J")]))
    assert "e]0;titlewc 2J" in text
    assert not set(text) & set("\x1b\x07\r\u009b")


def test_a_pipe_in_a_name_adds_no_column(record: Make) -> None:
    text = text_of([record("a|b")], "md")
    row = text.splitlines()[4]
    assert row.startswith(r"| a\|b |")
    assert row.replace(r"\|", "").count("|") == 8


def test_csv_quotes_what_needs_quotes(record: Make) -> None:
    text = text_of([record('a,"b"')], "csv")
    assert next(csv.DictReader(io.StringIO(text)))["method"] == 'a,"b"'


@pytest.mark.parametrize(
    "label", ["../../etc/passwd", "a/b", "A-b", "", ".", "é", "x" * 300, "a\0b"]
)
def test_every_label_makes_a_safe_file_name(label: str) -> None:
    name = f"table-{slug(label)}.md"
    assert Path(name).name == name
    assert len(name) < 120
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")


def test_labels_that_look_alike_get_different_files() -> None:
    assert slug("split-mnist-5k") == "split-mnist-5k"
    assert len({slug("a[b=1]"), slug("a-b-1"), slug("a b 1"), slug("A-b-1")}) == 4


def test_files_are_written_whole_and_only_those(few: list[Record], tmp_path: Path) -> None:
    paths = write(tables(few), tmp_path / "new" / "tables", ["md", "csv"])
    assert [path.name for path in paths] == ["table-two-tasks.md", "table-two-tasks.csv"]
    assert sorted(paths) == sorted((tmp_path / "new" / "tables").iterdir())
    assert paths[0].read_text(encoding="utf-8") == text_of(few, "md")


def test_a_folder_that_is_a_file_is_an_error_in_words(few: list[Record], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(UserError, match=r"cannot be written to .*taken.*another folder"):
        write(tables(few), tmp_path / "taken", ["md"])
    assert (tmp_path / "taken").read_text() == "mine"


def test_latex_compiles_as_it_is_with_nasty_names_and_all_columns(
    few: list[Record], record: Make, tmp_path: Path
) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not on this machine (Debian: texlive-latex-recommended)")
    nasty = record(
        f"agem[{NASTY}]",
        benchmark=NASTY,
        titles__method=f"[{NASTY}",
        titles__benchmark=NASTY,
        data={NASTY: {"sha256": "f" * 64, "note": NASTY}},
    )
    endless = record("ewc[" + 40 * "endless" + "]", benchmark=NASTY)
    failed = record(f"agem[{NASTY}]", 1, status="failed", R=[], done=0, data={}, benchmark=NASTY)
    made = tables([nasty, failed, endless], columns=EXTRA)
    (alone,) = write(made, tmp_path, ["tex"], standalone=True)
    fragment = write(tables(few), tmp_path / "fragment", ["tex"])[0]
    paper = tmp_path / "paper.tex"
    paper.write_text(
        "\\documentclass{article}\\usepackage{booktabs,graphicx}\\begin{document}\\listoftables\n"
        f"\\input{{fragment/{fragment.name}}}\\end{{document}}\n"
    )
    for source in (alone, paper):
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:]
        assert source.with_suffix(".pdf").stat().st_size > 1000
        assert "Overfull" not in done.stdout


def test_a_very_long_name_leaves_the_numbers_in_sight(record) -> None:
    name = f"ewc[{','.join(f'parameter_{i}={i}' for i in range(12))}]"
    lines = terminal(tables([record(name)]), 130).splitlines()
    assert max(len(line) for line in lines) < 130
    assert all(any(f"parameter_{i}={i}" in line for line in lines) for i in range(12))
    assert any("85.00" in line for line in lines)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_with_all_columns_fits_the_terminal(few, record, width: int) -> None:
    long = record("ewc[strength=123456,batch=17]", spec__protocol__lr=0.123)
    text = terminal(tables([*few, long], columns=EXTRA), width)
    assert max(len(line) for line in text.splitlines()) <= width
    for number in ("82.75 ± 0.35", "88.25 ± 0.35", "-9.50 ± 0.71", "12.00 ± 0.00"):
        assert number in text  # whole
    assert text.count("\nmethod ") > 1  # names stand beside every part
