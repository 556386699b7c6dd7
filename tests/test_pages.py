"""The pages for readers: links lead somewhere, numbers are those that were measured, nothing assumes a publication."""

import re
from pathlib import Path

import pytest

from tests.readme import PAGE as README
from tests.readme import ROOT

FOLDERS = ("docs", "examples", "packaging", "bench", "sim", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
SIZES = ("100 B", "1 KB")
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
MEASURED = {
    "start to the first acknowledged message": ("start", "empty data directory: first acknowledged message"),
    "memory of an idle broker": ("memory", "one topic: idle"),
    "broker CPU to take in 1 GB (1 KB records, acks=all, 1 partition)": (
        "produce",
        "1 KB, acks=all, 1 partition: broker CPU",
    ),
    "records per second in the same case": ("produce", "1 KB, acks=all, 1 partition: throughput"),
}
"""The numbers of README, and the section and row of benchmarks.md that each is from."""


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, blanks become dashes, other signs vanish."""
    titles = re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nothing_is_installed_from_an_index_that_does_not_have_it(page: Path) -> None:
    assert re.findall(r"(?:pip|pipx|uv) install [^`\n]*\bottla\b", without_paths(page.read_text())) == []


def without_paths(text: str) -> str:
    return re.sub(r"[\w.-]*/[\w./-]+", "", text)


def rows(page: Path) -> list[list[str]]:
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_numbers_of_the_front_page_are_those_of_the_benchmark() -> None:
    shown = {row[0]: row[1:] for row in rows(README)}
    for name, (section, what) in MEASURED.items():
        kafka, ottla = measured(section, what)
        assert [re.sub(r" (s|MB)$", "", value) for value in shown[name][:2]] == [ottla, kafka], name
        assert shown[name][2] == f"[{section}](docs/benchmarks.md#{section})"


def measured(section: str, what: str) -> tuple[str, str]:
    """What Apache Kafka and Ottla reached, without the spread."""
    text = BENCHMARKS.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    [row] = [line.split("|") for line in text.splitlines() if line.startswith(f"| {what} |") and "null" not in line]
    kafka, ottla = (cell.partition("±")[0].strip() for cell in row[3:5])
    return kafka, ottla


def test_the_range_of_rates_on_the_front_page_is_that_of_the_benchmark() -> None:
    [row] = [row for row in rows(BENCHMARKS) if row[0] == "ProducerPerformance: records/s"]
    worst, best = re.findall(r"([\d.]+)x", row[2])
    assert f"between {worst} and {best} times the rate of Kafka" in README.read_text()


def test_the_page_on_scale_has_the_numbers_of_the_benchmark() -> None:
    scale = (ROOT / "docs" / "scale.md").read_text()
    rates = {f"{size}, records/s": f"{size}, acks=all, 3 replicas: throughput" for size in SIZES}
    costs = {f"{size}, CPU s/GB of all brokers": f"{size}, acks=all, 3 replicas: CPU of all brokers" for size in SIZES}
    shown = {row[0]: row for row in rows(ROOT / "docs" / "scale.md")}
    for name, what in {**rates, **costs}.items():
        assert tuple(cell.partition(" ±")[0] for cell in shown[name][1:3]) == measured("cluster", what), name
    start = measured("start", "empty data directory: first acknowledged message")[1]
    memory = measured("memory", "one topic: idle")[1]
    assert f"| {memory} MB of memory, {start} s from the start to the first acknowledged message |" in scale


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_target_of_make_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^\$ |`)make ([a-z-]+)", page.read_text(), re.MULTILINE)) <= targets
