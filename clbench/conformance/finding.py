"""What a check finds: nothing, a mistake, or a remark."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    what: str
    """The check in words."""
    words: str = ""
    """What is wrong, or what a user should know; empty if there is nothing to say."""
    wrong: bool = False


class Remark(str):
    """What a check says of something that is not wrong."""


def finding(check: Callable[[Any], str], trial: Any) -> Finding:
    """Run one check: a function that returns a sentence, a `Remark` or an empty string."""
    try:
        words = check(trial)
    except Exception as error:
        words = raised(error)
    return Finding(str(check.__doc__), words, bool(words) and not isinstance(words, Remark))


def raised(error: Exception) -> str:
    """An error and where it was raised, in words."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"it raised {type(error).__name__}: {error} ({at.filename}, line {at.lineno})"
