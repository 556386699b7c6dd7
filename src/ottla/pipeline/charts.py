"""Line, bar and column charts as SVG, without a plotting library. A browser shows them without network access."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import cycle

COLOURS = ("#2f6fde", "#e07a2f", "#2a9d6f", "#b0449c", "#8a8f98", "#c9a227", "#4a4fb0", "#c62828")
_INK, _FAINT, _GRID = "#1c1f24", "#6a7079", "#e6e8eb"
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 18, 44, 34
_CHARACTER = 6.6
"""Upper estimate of the width of a character in 12 px of any sans-serif font."""

_MOST_POINTS = 600
_TIME_STEPS = (1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0)
"""Possible distances, in seconds, between the marks of a time axis."""
_MOST_MARKS = 7

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Size:
    width: int = 680
    height: int = 260


_SIZE = Size()


def line_chart(
    title: str, series: Mapping[str, Sequence[Point]], *, unit: str = "", times: bool = True, size: Size = _SIZE
) -> str:
    """One line per series on a common y axis that begins at zero. With `times`, x is in seconds since 1970, UTC."""
    points = [point for line in series.values() for point in line]
    if not points:
        return _frame(title, size, [_text(size.width / 2, size.height / 2, "no data", anchor="middle")])
    scale = _Scale(points, size)
    body = _horizontal_grid(scale, unit) + _time_axis(scale, times)
    for colour, (name, line) in zip(cycle(COLOURS), series.items(), strict=False):
        drawn = _thinned(line)
        path = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in drawn)
        if len(drawn) == 1:
            body.append(
                f'<circle cx="{scale.x(drawn[0][0]):.1f}" cy="{scale.y(drawn[0][1]):.1f}" r="3" fill="{colour}"/>'
            )
        if len(series) == 1:
            base = scale.y(0)
            area = f"{scale.x(drawn[0][0]):.1f},{base:.1f} {path} {scale.x(drawn[-1][0]):.1f},{base:.1f}"
            body.append(f'<polygon points="{area}" fill="{colour}" opacity="0.12"/>')
        body.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round">'
            f"<title>{escape(name)}</title></polyline>"
        )
    return _frame(title, size, body + _legend(list(series)))


def bar_chart(title: str, bars: Sequence[tuple[str, float]], *, unit: str = "", width: int = _SIZE.width) -> str:
    """Horizontal bars from the top down, each with its label and number."""
    size = Size(width, _TOP + 24 * max(1, len(bars)) + 10)
    left = 20 + _CHARACTER * max((len(label) for label, _ in bars), default=0)
    longest = max((value for _, value in bars), default=0.0) or 1.0
    room = width - left - 90
    body = []
    for number, (label, value) in enumerate(bars):
        y = _TOP + 24 * number
        length = max(1.0, value / longest * room)
        body.append(_text(left - 8, y + 13, label, anchor="end"))
        body.append(f'<rect x="{left:.1f}" y="{y}" width="{length:.1f}" height="17" rx="2" fill="{COLOURS[0]}"/>')
        body.append(_text(left + length + 6, y + 13, number_text(value) + unit, colour=_FAINT))
    return _frame(title, size, body)


def column_chart(title: str, columns: Sequence[tuple[str, float]], *, unit: str = "", size: Size = _SIZE) -> str:
    """Upright columns side by side, for histograms."""
    if not columns:
        return _frame(title, size, [_text(size.width / 2, size.height / 2, "no data", anchor="middle")])
    scale = _Scale([(float(index), value) for index, (_, value) in enumerate(columns)], size)
    step = (size.width - _LEFT - _RIGHT) / len(columns)
    body = _horizontal_grid(scale, unit)
    for index, (label, value) in enumerate(columns):
        x, y = _LEFT + step * index + step * 0.1, scale.y(value)
        body.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.8:.1f}" height="{scale.y(0) - y:.1f}" rx="2" '
            f'fill="{COLOURS[0]}"><title>{escape(label)}: {number_text(value)}{escape(unit)}</title></rect>'
        )
        if index % max(1, math.ceil(len(label) * _CHARACTER / step)) == 0:
            body.append(_text(x + step * 0.4, size.height - _BOTTOM + 16, label, anchor="middle", colour=_FAINT))
    return _frame(title, size, body)


def number_text(value: float) -> str:
    if abs(value) >= 1_000_000:
        return f"{value / 1_000_000:.3g} M"
    if abs(value) >= 10_000:
        return f"{value / 1_000:.3g} k"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:.3g}"


class _Scale:
    """Converts values to pixels."""

    def __init__(self, points: Sequence[Point], size: Size) -> None:
        self.size = size
        self.first = min(x for x, _ in points)
        self.last = max(x for x, _ in points)
        self.highest = max((y for _, y in points), default=0.0) or 1.0
        self.step = _round_step(self.highest)
        self.top = self.step * math.ceil(self.highest / self.step - 1e-9)

    def x(self, value: float) -> float:
        return _LEFT + (value - self.first) / ((self.last - self.first) or 1.0) * (self.size.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return self.size.height - _BOTTOM - value / self.top * (self.size.height - _TOP - _BOTTOM)


def _thinned(line: Sequence[Point]) -> Sequence[Point]:
    """Reduce a line to about _MOST_POINTS points. Each interval keeps its minimum and maximum, so no peak is lost."""
    if len(line) <= _MOST_POINTS:
        return line
    size = math.ceil(len(line) / (_MOST_POINTS // 2))
    kept: list[Point] = []
    for start in range(0, len(line), size):
        stretch = line[start : start + size]
        kept += sorted({min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])})
    return kept


def _round_step(highest: float) -> float:
    """1, 2 or 5 times a power of ten, such that there are three to six grid lines."""
    power = 10.0 ** math.floor(math.log10(highest))
    return next(power * part for part in (0.2, 0.5, 1.0, 2.0) if highest / (power * part) <= 6)


def _horizontal_grid(scale: _Scale, unit: str) -> list[str]:
    parts = []
    for number in range(round(scale.top / scale.step) + 1):
        value = scale.step * number
        y = scale.y(value)
        parts.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{scale.size.width - _RIGHT}" y2="{y:.1f}" stroke="{_GRID}"/>'
            + _text(_LEFT - 8, y + 4, number_text(value) + unit, anchor="end", colour=_FAINT)
        )
    return parts


def _time_axis(scale: _Scale, times: bool) -> list[str]:
    y = scale.size.height - _BOTTOM + 18
    step = _axis_step(scale.last - scale.first, times)
    values = [step * n for n in range(math.ceil(scale.first / step), math.floor(scale.last / step) + 1)]
    if len(values) < 2:
        values = sorted({scale.first, scale.last})
    return [
        _text(scale.x(each), y, _moment(each, step) if times else number_text(each), anchor="middle", colour=_FAINT)
        for each in values
    ]


def _axis_step(span: float, times: bool) -> float:
    """A round number or a round time span, such that about _MOST_MARKS marks fit."""
    if not times:
        return _round_step(span) if span else 1.0
    days = math.ceil(span / _MOST_MARKS / 86_400) * 86_400.0
    return next((each for each in _TIME_STEPS if span / each <= _MOST_MARKS), days)


def _moment(value: float, step: float) -> str:
    form = "%d %b" if step >= 86_400 else "%H:%M" if step >= 60 else "%H:%M:%S"
    return datetime.fromtimestamp(value, UTC).strftime(form)


def _legend(names: Sequence[str]) -> list[str]:
    if len(names) < 2:
        return []
    parts = []
    x = float(_LEFT)
    for colour, name in zip(cycle(COLOURS), names, strict=False):
        parts.append(f'<rect x="{x:.1f}" y="29" width="10" height="4" rx="2" fill="{colour}"/>')
        parts.append(_text(x + 14, 35, name, colour=_FAINT))
        x += 30 + _CHARACTER * len(name)
    return parts


def _frame(title: str, size: Size, body: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size.width} {size.height}" width="{size.width}" '
            f'height="{size.height}" font-family="system-ui, sans-serif" font-size="12" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{size.width}" height="{size.height}" fill="#ffffff"/>',
            _text(14, 20, title, weight="600"),
            *body,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "400", colour: str = _INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">'
        f"{escape(text)}</text>"
    )
