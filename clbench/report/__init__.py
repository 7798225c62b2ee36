"""Records -> tables. Nothing here trains or imports torch, and records may still be growing.

    records -> runs.py     what each run measured, and whether it may be counted
            -> cells.py    runs that differ in nothing but the seed, averaged
            -> table.py    one table per benchmark, with its caption and its warnings
            -> terminal.py, markdown.py, latex.py, plain.py, page/

The same records give the same bytes, in whatever order they come. `frame.py` offers the same
numbers as pandas DataFrames.
"""

from clbench.report.columns import COLUMNS, EXTRA, MAIN
from clbench.report.table import Table, tables, tables_of
from clbench.report.terminal import terminal
from clbench.report.write import FORMATS, write

__all__ = [
    "COLUMNS",
    "EXTRA",
    "FORMATS",
    "MAIN",
    "Table",
    "tables",
    "tables_of",
    "terminal",
    "write",
]
