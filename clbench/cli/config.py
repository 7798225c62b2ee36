"""`clbench run --config FILE.toml`: the keys of a file as the defaults of the flags."""

from pathlib import Path
from typing import Any

import click

from clbench.errors import UserError, unknown
from clbench.files import read_toml
from clbench.registry import refuse_files


def read_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Make the keys of a TOML file the defaults of the flags of the same names."""
    if value is None:
        return
    flags = {
        max(p.opts, key=len).removeprefix("--"): str(p.name)
        for p in ctx.command.params
        if isinstance(p, click.Option) and p.name not in ("config", "help")
    }
    defaults: dict[str, Any] = {}
    for key, setting in _content(value).items():
        flag = key.replace("_", "-")
        if flag not in flags:
            raise unknown(f"key in {value}:", key, flags)
        if isinstance(setting, dict):
            raise UserError(f"--config {value}: {key} must be a value or a list, not a table.")
        # with a comma at the end: `seeds = [7]` is seed 7, `seeds = 7` is seven seeds
        plain = "".join(f"{s}," for s in setting) if isinstance(setting, list) else setting
        _refuse_a_strangers(flag, str(plain), f"--config {value}")
        defaults[flags[flag]] = plain if isinstance(plain, bool) else str(plain)
    ctx.default_map = defaults


def _content(path: str) -> dict[str, Any]:
    """The keys of the file; those of the table [executor] stand beside the others, and its `name`
    is the flag --executor."""
    content = read_toml(Path(path), f"--config {path}")
    table = content.get("executor")
    if isinstance(table, dict):
        del content["executor"]
        content |= {"executor" if key == "name" else key: value for key, value in table.items()}
    return content


def _refuse_a_strangers(flag: str, value: str, where: str) -> None:
    """A file that somebody else wrote must run no code and write only below this folder."""
    if flag in ("methods", "benchmarks"):
        refuse_files(value, where, f"name it by --{flag}")
    if flag == "ray-address":
        raise UserError(f"{where}: a Ray cluster can run code here: name it by --ray-address.")
    if flag == "out" and (Path(value).is_absolute() or ".." in Path(value).parts):
        raise UserError(f"{where}: out = {value!r} is not below this folder: name it by --out.")
