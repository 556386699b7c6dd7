"""The committed page says what the registry says."""

from pathlib import Path

from ottla.handlers.document import document

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


def test_the_committed_page_is_what_the_registry_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == document() + "\n", "run `make docs`"
