"""later"""

from pathlib import Path


def show(out: Path, methods: str | None = None, benchmarks: str | None = None) -> None: ...
