"""Tables and their runs as one HTML file that works from disk and loads nothing from elsewhere.

`data.py` says what the page shows; `page.html`, `page.css` and the scripts beside it draw that in a
browser; `serve.py` offers it on loopback while runs go on. A name out of a record travels inside
JSON and enters the page as text: it cannot become markup or code, and the content security policy
allows no script or style but the two whose hashes it names.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clbench.record import Record
from clbench.report.page.data import content
from clbench.report.table import Table

SCRIPTS = ("dom.js", "heat.js", "curves.js", "details.js", "table.js", "page.js")
"""The page's script, in parts; together they are one."""
_HERE = Path(__file__).parent


def render(tables: list[Table], records: Iterable[Record]) -> str:
    """The whole file; the same records give the same bytes."""
    return document(embed(content(tables, records)))


def document(data: str, served: bool = False) -> str:
    """The page around its data. Only a served page may send requests, to its own server."""
    style = _read("page.css")
    script = "\n".join(_read(name) for name in SCRIPTS)
    policy = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "img-src": "data:",
        "connect-src": "'self'" if served else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    parts = {
        "policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "style": style,
        "script": script,
        "data": data,
    }
    # in one pass: inserted text is never scanned again
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _read("page.html"))


def embed(value: Any) -> str:
    """JSON in pure ASCII that may stand inside a script element: no < > or & is left in it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
