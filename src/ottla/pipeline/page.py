"""A report as one self-contained HTML file, without scripts and network access."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f4f5f7; color: #1c1f24; font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1480px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 28px; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 36px 0 12px; }
p { margin: 0 0 12px; color: #4a5058; max-width: 80ch; }
.figures { display: flex; flex-wrap: wrap; gap: 12px; margin: 24px 0; }
.figure { background: #fff; border-radius: 10px; padding: 14px 20px; min-width: 150px; box-shadow: 0 1px 2px #0001; }
.figure b { display: block; font-size: 24px; font-weight: 650; font-variant-numeric: tabular-nums; }
.figure span { color: #6a7079; font-size: 13px; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(560px, 100%), 1fr)); gap: 16px; }
.chart { background: #fff; border-radius: 10px; padding: 10px; box-shadow: 0 1px 2px #0001; }
.chart svg { width: 100%; height: auto; display: block; }
table { border-collapse: collapse; margin-top: 16px; background: #fff; border-radius: 10px;
  box-shadow: 0 1px 2px #0001; }
th, td { text-align: left; padding: 7px 16px; border-bottom: 1px solid #eceef0; font-variant-numeric: tabular-nums; }
th { font-weight: 600; color: #6a7079; font-size: 13px; }
footer { margin-top: 40px; color: #6a7079; font-size: 13px; }
"""


@dataclass(slots=True)
class Section:
    title: str
    text: str = ""
    charts: list[str] = field(default_factory=list)
    header: Sequence[str] = ()
    rows: list[Sequence[str]] = field(default_factory=list)


@dataclass(slots=True)
class Page:
    title: str
    text: str
    figures: list[tuple[str, str]] = field(default_factory=list)
    """The numbers at the top: value and label."""
    sections: list[Section] = field(default_factory=list)
    footer: str = ""

    def html(self) -> str:
        figures = "".join(
            f'<div class="figure"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
            for value, name in self.figures
        )
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{_STYLE}</style></head>\n<body><main>\n"
            f"<h1>{escape(self.title)}</h1><p>{escape(self.text)}</p>\n"
            f'<div class="figures">{figures}</div>\n'
            + "\n".join(map(_section, self.sections))
            + f"\n<footer>{escape(self.footer)}</footer>\n</main></body></html>\n"
        )

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html())


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    if section.charts:
        charts = "".join(f'<div class="chart">{chart}</div>' for chart in section.charts)
        parts.append(f'<div class="charts">{charts}</div>')
    if section.rows:
        head = "".join(f"<th>{escape(name)}</th>" for name in section.header)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in section.rows)
        parts.append(f"<table><tr>{head}</tr>{body}</table>")
    return "\n".join(parts)
