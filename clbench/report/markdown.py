"""Tables in GitHub's Markdown, with the best value of a column bold."""

from clbench.report.columns import MATRIX
from clbench.report.escape import markdown
from clbench.report.table import Table
from clbench.report.words import spread


def render(table: Table) -> str:
    """One table under a heading, its caption below, its warnings as a list."""
    lines = [f"## {markdown(table.title)}", ""]
    lines.append(_line([markdown(heading) for heading in table.headings()]))
    lines.append(_line([":---", *["---:"] * (len(table.columns) + 1)]))
    for at, row in enumerate(table.rows):
        texts = [markdown(row.name)]
        for column in table.columns:
            text = table.show(row, column, " ± {}")
            texts.append(f"**{text}**" if (at, column.key) in table.best else text)
        lines.append(_line([*texts, str(len(row.counted))]))
    about = [f"Benchmark: {table.benchmark}.", spread(table.rows, "a ± b"), MATRIX[0]]
    about += list(dict.fromkeys(column.formula for column in table.columns)) + table.facts
    if table.best:
        about.append("Bold: best of a column, references aside.")
    lines += ["", markdown(" ".join(about))]
    if table.remarks:
        lines += ["", markdown(" ".join(table.remarks))]
    if table.warnings():
        lines += ["", *(f"- {markdown(warning)}" for warning in table.warnings())]
    return "\n".join(lines) + "\n"


def _line(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"
