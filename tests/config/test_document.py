from pathlib import Path

from ottla.config.document import document
from ottla.config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_committed_page_is_what_the_table_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == document(), "run `make docs`"


def test_every_key_has_its_row() -> None:
    rows = [line for line in document().splitlines() if line.startswith("| `") and line.count(" | ") >= 4]
    assert len(rows) == sum(map(len, (BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS)))


def test_every_table_is_well_formed() -> None:
    columns = None
    for line in document().splitlines():
        if not line.startswith("|"):
            columns = None
            continue
        found = line.count("|")
        assert columns in (None, found), line
        columns = found
