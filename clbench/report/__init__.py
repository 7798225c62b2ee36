"""Records -> tables. Nothing here trains or imports torch, and records may still be growing.

    records -> runs.py     what each run measured
            -> rows.py     runs that differ in nothing but the seed, averaged
            -> table.py    one table per benchmark, with its caption and its warnings
            -> terminal.py, markdown.py, latex.py, plain.py, page/, figures/

No code here knows a method: what only some methods record comes with its title, its kind and its
warning in the record (`lays_open`). The same records give the same bytes, in any order.
`frame.py` offers the same numbers as pandas DataFrames.
"""

from clbench.report.columns import COLUMNS, EXTRA, MAIN
from clbench.report.table import Table, lacking, tables, tables_of
from clbench.report.terminal import terminal
from clbench.report.write import FORMATS, write

__all__ = [
    "COLUMNS",
    "EXTRA",
    "FORMATS",
    "MAIN",
    "Table",
    "lacking",
    "tables",
    "tables_of",
    "terminal",
    "write",
]
