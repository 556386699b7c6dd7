"""The committed page says what the controller decides."""

from pathlib import Path

from ottla.cluster.document import document

PAGE = Path(__file__).parents[2] / "docs" / "elections.md"


def test_the_committed_page_is_what_the_controller_decides() -> None:
    assert PAGE.read_text(encoding="utf-8") == document() + "\n", "run `make docs`"
