"""README.md in pieces: the fenced blocks of a section, and the code within sentences."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "README.md"
ADDRESS = "127.0.0.1:9092"
"""The address in the examples. A test replaces it, since another broker may use the port."""


class Block(NamedTuple):
    section: str
    language: str
    text: str


class Command(NamedTuple):
    """A line of a console block that begins with $, without its comment, and the output that follows."""

    text: str
    output: str


def blocks() -> list[Block]:
    found = []
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        found += [Block(title, *match) for match in re.findall(r"^```(\w+)\n(.*?)^```", body, re.DOTALL | re.MULTILINE)]
    return found


def commands(section: str) -> list[Command]:
    found = []
    for block in blocks():
        if (block.section, block.language) == (section, "console"):
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                found.append(Command(re.sub(r"\s+#.*", "", line), output))
    return found


def programs(section: str) -> list[str]:
    return [block.text for block in blocks() if (block.section, block.language) == (section, "python")]


def inline_code() -> list[str]:
    without_blocks = re.sub(r"^```.*?^```", "", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", without_blocks)
