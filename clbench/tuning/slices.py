"""The figure of a search: score against each value that was searched, a row per method."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import FixedLocator, NullLocator

from clbench.errors import UserError
from clbench.report.figures import style
from clbench.report.figures.picture import MOST
from clbench.tuning.outcome import Entry, Tried, ends
from clbench.tuning.report import choices, place, score
from clbench.tuning.space import MOST as DIMENSIONS


def draw(entries: Sequence[Entry]) -> Any:
    """The figure; a UserError for more methods than one can hold."""
    if len(entries) > MOST:
        raise UserError(
            f"{len(entries)} methods are too many for one figure (at most {MOST}): choose some "
            "with --methods."
        )
    columns = min(DIMENSIONS, max(len(entry.space) for entry in entries))
    figure = style.new_figure(style.TEXT, 0.4 + 1.25 * len(entries))
    axes = figure.subplots(len(entries), columns, squeeze=False)
    names = style.names([entry.name for entry in entries], 24)
    for row, entry, name in zip(axes, entries, names, strict=True):
        for ax in row[len(entry.space) :]:
            ax.set_visible(False)
        for ax, parameter in zip(row, entry.space, strict=False):
            _slice(ax, entry, parameter)
            if ax is not row[0]:
                ax.tick_params(labelleft=False)
        row[0].set_ylabel(style.wrapped(name, 12))
        low, high = _limits(entry)
        for ax in row:
            ax.set_ylim(low, high)
    return figure


def _slice(ax: Any, entry: Entry, parameter: str) -> None:
    """One parameter of one method."""
    listed = choices(entry, parameter)
    if listed:
        ax.set_xticks(range(len(listed)), [_brief(choice) for choice in listed])
        ax.set_xlim(-0.5, len(listed) - 0.5)
    else:
        _axis(ax, entry.space[parameter], [place(entry, parameter, t) for t in entry.trials])
    for number, trial in enumerate(entry.trials):
        at = place(entry, parameter, trial), score(trial)
        if not any(map(math.isnan, at)):
            ax.plot(*at, **_look(trial, number, entry.best))
    ax.set_xlabel(style.names([parameter], 20)[0])


def _axis(ax: Any, space: str, values: list[float]) -> None:
    """An axis for a range and the usual value, which may lie outside, with a tick at each end."""
    log = space.startswith("log")
    ticks = ends(space)
    known = [value for value in values if value == value and (value > 0 or not log)] + ticks
    if log:
        ax.set_xscale("log")
        room = (max(known) / min(known)) ** 0.08
        ax.set_xlim(min(known) / room, max(known) * room)
    else:
        room = 0.08 * (max(known) - min(known))
        ax.set_xlim(min(known) - room, max(known) + room)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(lambda value, _: _brief(f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def _brief(value: str) -> str:
    """0.0001 and 1e+06 -> 1e-4 and 1e6, so that labels do not run into one another."""
    try:
        number = float(value)
    except ValueError:
        return value[:8]
    if number == 0 or 0.01 <= abs(number) < 1e5:
        return value[:8]
    digits, _, power = f"{number:.0e}".partition("e")
    return f"{digits}e{int(power)}"


def _look(trial: Tried, number: int, best: int) -> dict[str, Any]:
    face = style.COLOURS[0] if trial.state == "finished" else "white"
    look = {"color": style.COLOURS[0], "linestyle": "", "marker": "o", "zorder": 2}
    look |= {"markerfacecolor": face, "markersize": 3.5}
    if number == 0:
        look |= {"marker": "s", "color": style.COLOURS[6], "markersize": 4.5, "zorder": 3}
        look["markerfacecolor"] = style.COLOURS[6] if trial.state == "finished" else "white"
    if number == best:
        look |= {"marker": "*", "color": style.COLOURS[1], "markersize": 8.0, "zorder": 4}
        look["markerfacecolor"] = style.COLOURS[1]
    return look


def _limits(entry: Entry) -> tuple[float, float]:
    known = [value for trial in entry.trials if not math.isnan(value := score(trial))] or [0, 100]
    room = max(1.0, 0.08 * (max(known) - min(known)))
    return min(known) - room, max(known) + room
