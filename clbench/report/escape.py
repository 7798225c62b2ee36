"""A user's names made safe for each format: a name is shown, never obeyed."""

import hashlib
import re
import unicodedata
from typing import Any

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&",
    "#": r"\#", "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''",
    "`": r"\textasciigrave{}",
    "'": "'{}",  # two in a row would become a closing double quote
    "-": "-{}",  # two in a row would become a dash
    "[": "{[}", "]": "{]}", "*": "{*}",  # a row that starts with [ or * would change its \\
    "\N{EN DASH}": "--", "\N{EM DASH}": "---",
    "\N{PLUS-MINUS SIGN}": r"$\pm$", "\N{MULTIPLICATION SIGN}": r"$\times$",
}  # fmt: skip
LONGEST = 1000
"""Characters of a name, a value or a note that a report shows."""
_NOT_IN_EVERY_FONT = "ÐðÞþ"  # need the T1 encoding, which the surrounding document may not load
_FORMULA = re.compile(r"(^|;)(?=\s*[=+@\t\r\uff0b\uff0d\uff1d\uff20-])")  # full-width too
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", re.ASCII | re.I)
_MARKDOWN = {"<": "&lt;", ">": "&gt;", "&": "&amp;"} | {c: "\\" + c for c in "\\`*_[]|#~$!"}


def clean(text: str) -> str:
    """`text` on one line, without control, formatting or unpaired surrogate characters."""
    if text.isascii() and text.isprintable():  # nearly every name, and a report asks for thousands
        return " ".join(text.split())
    visible = [" " if c.isspace() else c for c in text]
    kept = "".join(c for c in visible if not unicodedata.category(c).startswith("C"))
    return " ".join(kept.split())


def short(text: str) -> str:
    """`clean`, and what is longer than a caption can hold is cut; a hash keeps such texts apart."""
    shown = clean(text)
    if len(shown) <= LONGEST:
        return shown
    digest = hashlib.sha256(shown.encode()).hexdigest()[:8]
    return f"{shown[: LONGEST - 20]}... [{digest}]"


def latex(text: str) -> str:
    """`text` for pdflatex, in any document: what plain fonts lack is written as [U+4E2D]."""
    return re.sub(r"-\{\}(?!-)", "-", "".join(_latex_character(c) for c in clean(text)))


def _latex_character(c: str) -> str:
    if c in _LATEX:
        return _LATEX[c]
    plain_letter = "À" <= c <= "ÿ" and c.isalpha() and c not in _NOT_IN_EVERY_FONT
    return c if c.isascii() or plain_letter else f"{{[}}U+{ord(c):04X}{{]}}"


def markdown(text: str) -> str:
    """`text` as literal text inside a Markdown table or sentence."""
    return "".join(_MARKDOWN.get(c, c) for c in clean(text))


def csv_cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets an apostrophe in front, also after
    a semicolon, which separates fields in some countries. Numbers stay as they are."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    return _FORMULA.sub(r"\1'", value)


def slug(label: str) -> str:
    """A file name for a label: itself where that is safe, else a readable part and a hash.

    The hash keeps labels apart that look alike once their odd characters are gone.
    """
    safe = re.sub(r"[^a-z0-9_-]+", "-", label.lower())[:80].strip("-")
    if safe == label:
        return safe
    digest = hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe}-{digest}" if safe else digest
