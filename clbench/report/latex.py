"""Tables in LaTeX: a booktabs fragment to `\\input`, or a document that compiles as it is."""

import re
from collections.abc import Callable

from clbench.report.columns import MATRIX
from clbench.report.escape import latex, slug
from clbench.report.rows import Row
from clbench.report.table import MISSING, Table
from clbench.report.words import spread

_DOCUMENT = r"""\documentclass{article}
\usepackage[margin=2.5cm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}
%s\end{document}
"""
_FRAGMENT = r"% \input this file; the preamble needs \usepackage{booktabs,graphicx}." + "\n"
_LONG = 24  # characters of a name that still stand on one line


def render(table: Table, standalone: bool = False) -> str:
    """One floating table; `standalone` wraps it in a document for pdflatex."""
    return _DOCUMENT % _float(table) if standalone else _FRAGMENT + _float(table)


def _float(table: Table) -> str:
    title = latex(table.title)
    name = _naming(table)
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        r"\setlength{\belowcaptionskip}{6pt}",
        rf"\caption[{{{title}}}]{{{title}. {_caption(table)}}}",
        rf"\label{{tab:clbench-{slug(table.benchmark)}}}",
        _size(table),
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{@{{}}l{'r' * (len(table.columns) + 1)}@{{}}}}",
        r"\toprule",
        *_headings(table),
        r"\midrule",
    ]
    blanks = {
        column.key: rf"\phantom{{({0:.{column.decimals}f})}}"
        for column in table.columns
        if any(")" in table.show(row, column, "({})") for row in table.rows)
    }
    for number, row in enumerate(table.rows):
        if table.new_block(number):
            lines.append(r"\midrule")
        texts = [_first(name(row))]
        for column in table.columns:
            shown = table.show(row, column, "({})")
            plain, _, source = shown.partition(" [")  # the letter after a number of the paper
            text = _number(plain, blanks.get(column.key, ""))
            if source:
                text += rf"\textsuperscript{{{source.rstrip(']')}}}"
            if column.key == "paper-word" and shown != MISSING:
                text = rf"\parbox[t]{{2.2cm}}{{\raggedleft {latex(shown)}\strut}}"
            texts.append(rf"\textbf{{{text}}}" if (number, column.key) in table.best else text)
        lines.append(_row([*texts, str(len(row.counted))]))
    lines += [r"\bottomrule", r"\end{tabular}}"]
    if sentences := [*table.remarks, *table.warnings(name)]:
        notes = "\\\\\n".join(_breakable(sentence) for sentence in sentences)
        lines += [
            r"\par\medskip",
            rf"\begin{{minipage}}{{\linewidth}}\raggedright\footnotesize {notes}",
            r"\end{minipage}",
        ]
    lines.append(r"\end{table}")
    return "\n".join(lines) + "\n"


def _naming(table: Table) -> Callable[[Row], str]:
    """Titles as papers print them; the names one types where two methods share a title."""
    methods: dict[str, set[str]] = {}
    for row in table.rows:
        methods.setdefault(row.head.method_title, set()).add(row.head.method_name)

    def name(row: Row) -> str:
        run = row.head
        if len(methods[run.method_title]) > 1:
            return row.name
        parameters = run.method.removeprefix(run.method_name)
        text = f"{run.method_title} {parameters}".strip()
        return f"{text} ({row.mark})" if row.mark else text

    return name


def _first(name: str) -> str:
    """The name of a row; a long one is set in several lines."""
    if len(name) <= _LONG:
        return latex(name)
    return rf"\parbox[t]{{3.4cm}}{{\raggedright {_breakable(name, 1)}\strut}}"


def _breakable(text: str, longest: int = _LONG) -> str:
    """Text in which LaTeX may break words that are longer than that."""

    def word(word: str) -> str:
        if len(word) <= longest:
            return latex(word)
        parts = re.findall(r"[^,_=]{1,16}[,_=]?|[,_=]", word)
        return r"\allowbreak{}".join(latex(part) for part in parts)

    return " ".join(word(part) for part in text.split(" "))


def _caption(table: Table) -> str:
    words = [latex(spread(table.rows, "a(b)")), MATRIX[1]]
    words += dict.fromkeys(column.tex or column.formula for column in table.columns)
    words += [latex(fact) for fact in table.facts]
    if table.best:
        words.append("Bold: best of a column, references aside.")
    return " ".join(words)


def _headings(table: Table) -> list[str]:
    """Names over units, in two rows: numbers are narrower than the two side by side."""
    names, units = [], []
    published = [False, *(column.published for column in table.columns), False]
    for heading, of_paper in zip(table.headings(), published, strict=True):
        # `Buzzega et al.,` over `2020 ACC %`
        name, gap, unit = heading.rpartition(", " if of_paper else " ")
        name += gap.rstrip()
        names.append({"I_T": "$I_T$"}.get(name or unit, latex(name or unit)))
        units.append(latex(unit) if name else "")
    return [_row(names), _row(units)]


def _number(text: str, blank: str) -> str:
    """A minus sign, a dash for no value, and `blank` in the place of a (std)."""
    if text == MISSING:
        return "--"
    if text[-1].isdigit():
        text += blank
    return f"$-${text[1:]}" if text.startswith("-") else text


def _size(table: Table) -> str:
    """The type size at which this many columns fit a page."""
    columns = len(table.columns)
    size = r"\small" if columns <= 6 else r"\footnotesize" if columns <= 8 else r"\scriptsize"
    return rf"{size}\setlength{{\tabcolsep}}{{{4 if columns <= 8 else 2}pt}}"


def _row(texts: list[str]) -> str:
    return " & ".join(texts) + r" \\"
