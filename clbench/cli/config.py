"""`clbench run --config FILE.toml`: the keys of a file as the defaults of the flags."""

from pathlib import Path
from typing import Any

import click

from clbench.errors import UserError, unknown
from clbench.files import read_toml
from clbench.registry import check_setting

FOLDERS = ("out", "data-root", "ray-address")
"""Flags whose values may have a slash: nothing in these places is executed."""


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
        parts = setting if isinstance(setting, list) else [setting]
        if any(isinstance(part, dict | list) for part in parts):
            raise UserError(f"--config {value}: {key} must be a value or a list of values.")
        _refuse_a_strangers(flag, setting, f"--config {value}: {key}")
        # with a comma at the end: `seeds = [7]` is seed 7, `seeds = 7` is seven seeds
        plain = "".join(f"{s}," for s in parts) if parts is setting else setting
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


def _refuse_a_strangers(flag: str, value: Any, where: str) -> None:
    """A file that somebody else wrote must run no code and write only below this folder."""
    check_setting(value, where, "" if flag in FOLDERS else f"name it by --{flag}")
    if flag == "ray-address":
        raise UserError(f"{where}: a Ray cluster can run code here: name it by --ray-address.")
    if flag == "out" and (Path(str(value)).is_absolute() or ".." in Path(str(value)).parts):
        raise UserError(f"{where} = {value!r} is not below this folder: name it by --out.")
