"""Bar charts as SVG, written by hand: a few rectangles and labels need no plotting library."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench.measurement import KAFKA, NULL, NULL_FSYNC, OTTLA

COLOURS = {KAFKA: "#8a8f98", OTTLA: "#2f6fde", NULL: "#d9a441", NULL_FSYNC: "#d9a441"}

_WIDTH = 940
_LABELS = 400
_VALUES = 110
_BAR = 15
_GAP = 12
_TOP = 58


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one case: broker, length, and what is written beside it."""

    label: str
    bars: Sequence[tuple[str, float, str]]


def bar_chart(title: str, groups: Sequence[Group]) -> str:
    """Horizontal bars from zero on one linear scale, one group under the other."""
    longest = max((value for group in groups for _, value, _ in group.bars), default=0.0) or 1.0
    names = list(dict.fromkeys(name for group in groups for name, _, _ in group.bars))
    body = _legend(names)
    y = _TOP
    for group in groups:
        middle = y + len(group.bars) * _BAR / 2 + 4
        body.append(_text(_LABELS - 8, middle, group.label, anchor="end"))
        for name, value, label in group.bars:
            length = max(0.0, value) / longest * (_WIDTH - _LABELS - _VALUES)
            body.append(
                f'<rect x="{_LABELS}" y="{y}" width="{length:.1f}" height="{_BAR - 2}" fill="{COLOURS[name]}"/>'
            )
            body.append(_text(_LABELS + length + 6, y + _BAR - 4, label))
            y += _BAR
        y += _GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y}" viewBox="0 0 {_WIDTH} {y}" '
            'font-family="sans-serif" font-size="12" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{_WIDTH}" height="{y}" fill="#ffffff"/>',
            _text(12, 22, title, weight="bold"),
            *body,
            "</svg>\n",
        ]
    )


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    x = 12.0
    for name in names:
        parts.append(f'<rect x="{x:.0f}" y="34" width="11" height="11" fill="{COLOURS[name]}"/>')
        parts.append(_text(x + 16, 44, name))
        x += 40 + 7 * len(name)
    return parts


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="#1c1f24">'
        f"{escape(text)}</text>"
    )
