"""The one exception that means "the user can fix this": printed as a sentence, exit code 2."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake of the user's, in words: what is wrong, where, and what to type instead."""


class BrokenWarning(UserWarning):
    """An installed method or benchmark is left out because it is broken."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'ewc'?` for a near miss, else an empty string."""
    close = difflib.get_close_matches(name, list(known), n=2, cutoff=0.5)
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(c) for c in close)}?"


def unknown(kind: str, name: str, known: Iterable[str], hint: str = "") -> UserError:
    """The error for a name that is not there, with the nearest names or, if none is near, all."""
    names = sorted(known)
    close = did_you_mean(name, names)
    listing = close or (f" Known: {', '.join(names)}." if names else "")
    return UserError(f"Unknown {kind} {name!r}.{listing}{' ' + hint if hint else ''}")
