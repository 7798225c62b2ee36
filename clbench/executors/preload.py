"""Imported once by the fork server, so that every worker starts with torch and Avalanche loaded.

A broken installation must not end the server: each worker meets the error again and reports it.
"""

import contextlib

from clbench.executors.quiet import silence_packages

silence_packages()
with contextlib.suppress(Exception):
    import clbench.runner  # noqa: F401
