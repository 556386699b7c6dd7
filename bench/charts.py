"""Bar charts as SVG, without a plotting library."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count

from bench.measurement import CONNECTOR, KAFKA, NULL, NULL_FSYNC, OTTLA, TUNED_CONNECTOR

COLOURS = {
    KAFKA: "#8a8f98",
    OTTLA: "#2f6fde",
    NULL: "#d9a441",
    NULL_FSYNC: "#d9a441",
    CONNECTOR: "#8a8f98",
    TUNED_CONNECTOR: "#5b616b",
}
TARGET = "#c62828"
BAR_HEIGHT = 13

_INK = "#1c1f24"
_GRID = "#e3e5e8"
_PLOT = 430
"""Width of the longest bar."""
_VALUES = 90
"""Width reserved for the number beside the bar."""
_CHARACTER = 7
"""Upper estimate of the width of a character in 12 px of any sans-serif font."""
_BAR = BAR_HEIGHT + 2
_GAP = 12
_TOP = 74
_LOG_FROM = 40
"""If the longest bar is this many times the shortest, the scale is logarithmic, so that the shortest stays visible."""


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one case: broker, value and label of each, and the value that meets Ottla's bar."""

    label: str
    bars: Sequence[tuple[str, float, str]]
    target: float | None = None


@dataclass(frozen=True, slots=True)
class _Axis:
    place: Callable[[float], float]
    """Pixels from the left edge of the plot."""
    ticks: Sequence[float]
    note: str


def bar_chart(title: str, groups: Sequence[Group]) -> str:
    """Horizontal bars on one scale, in groups, with a line at the target of each group."""
    axis = _axis(groups)
    left = 24 + _CHARACTER * max((len(group.label) for group in groups), default=0)
    height = _TOP + sum(len(group.bars) * _BAR + _GAP for group in groups)
    body = [_tick(left, axis, value, height) for value in axis.ticks]
    y = _TOP
    for group in groups:
        body += _group(group, left, y, axis)
        y += len(group.bars) * _BAR + _GAP
    width = left + _PLOT + _VALUES
    names = list(dict.fromkeys(name for group in groups for name, _, _ in group.bars))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            _text(12, 22, title + axis.note, weight="bold"),
            *_legend(names, with_target=any(group.target is not None for group in groups)),
            *body,
            "</svg>\n",
        ]
    )


def _axis(groups: Sequence[Group]) -> _Axis:
    """Linear from zero, or logarithmic if the shortest bar would not be visible."""
    values = [value for group in groups for _, value, _ in group.bars]
    ends = [*values, *(group.target for group in groups if group.target is not None)]
    longest = max(ends, default=0.0) or 1.0
    shortest = min((value for value in ends if value > 0), default=longest)
    if longest < shortest * _LOG_FROM:
        step = _step(longest)
        ticks = [step * number for number in range(int(longest / step) + 1)]
        return _Axis(lambda value: max(0.0, value) / longest * _PLOT, ticks, "")
    low = math.floor(math.log10(shortest) - 0.1)
    decades = math.log10(longest) - low
    ticks = [10.0**power for power in range(low, math.floor(math.log10(longest)) + 1)]
    return _Axis(
        lambda value: max(0.0, math.log10(value) - low) / decades * _PLOT if value > 0 else 0.0,
        ticks,
        " (logarithmic scale)",
    )


def _step(longest: float) -> float:
    """1, 2 or 5 times a power of ten, such that there are four to nine ticks."""
    power = 10.0 ** math.floor(math.log10(longest))
    return next(power * part for part in (0.1, 0.2, 0.5, 1.0) if longest / (power * part) < 10)


def _tick(left: int, axis: _Axis, value: float, height: int) -> str:
    x = left + axis.place(value)
    line = f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{height - _GAP / 2:.1f}" stroke="{_GRID}"/>'
    return line + _text(x, _TOP - 10, f"{value:,.10g}", anchor="middle")


def _group(group: Group, left: int, y: int, axis: _Axis) -> list[str]:
    """Labels are drawn last, so that the target line does not cross them."""
    labels = [_text(left - 8, y + len(group.bars) * _BAR / 2 + 3, group.label, anchor="end")]
    bars, lines = [], []
    for top, (name, value, label) in zip(count(y, _BAR), group.bars, strict=False):
        length = axis.place(value)
        bars.append(f'<rect x="{left}" y="{top}" width="{length:.1f}" height="{BAR_HEIGHT}" fill="{COLOURS[name]}"/>')
        labels.append(_text(left + length + 6, top + BAR_HEIGHT - 2, label))
        if name == OTTLA and group.target is not None:
            x = f"{left + axis.place(group.target):.1f}"
            bottom = top + BAR_HEIGHT + 2
            lines.append(f'<line x1="{x}" y1="{top - 2}" x2="{x}" y2="{bottom}" stroke="{TARGET}" stroke-width="2"/>')
    return bars + lines + labels


def _legend(names: Sequence[str], *, with_target: bool) -> list[str]:
    entries = [(name, COLOURS[name], 11) for name in names]
    if with_target:
        entries.append(("bar for Ottla", TARGET, 2))
    parts = []
    x = 12
    for name, colour, width in entries:
        parts.append(f'<rect x="{x}" y="34" width="{width}" height="11" fill="{colour}"/>')
        parts.append(_text(x + width + 5, 44, name))
        x += width + 24 + _CHARACTER * len(name)
    return parts


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{_INK}" '
        f'stroke="#ffffff" stroke-width="3" paint-order="stroke">'
        f"{escape(text)}</text>"
    )
