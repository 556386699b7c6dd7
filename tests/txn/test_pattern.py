"""The linear matcher against Python's own, and against patterns that keep a backtracking matcher busy for ever."""

import random
import re

import pytest

from ottla.errors import ErrorCode
from ottla.txn.listing import TransactionFilter
from ottla.txn.pattern import LinearPattern, PatternError
from tests.replication.world import expect
from tests.txn.shard import Shard

PATTERNS = [
    *("", ".", "a|", "a.*", "(a|b)*c", "x{2,3}", "[a-c]+\\d?", "^abc$", "(?i)ABc", "a\\.b", "(?:foo|bar)-\\d{1,3}"),
    *("[^x]*", "(a*)*", "(a|a)*b", "\\w+-[0-9]+", "a+?b*?", "(?i:a)b", "é+", "a^b", "a(^b)", "^^a$$", "(^|b)a", "$^"),
]
TEXTS = [
    *("", "a", "abc", "ABC", "aab", "xx", "xxx", "c", "abac", "foo-12", "bar-1234", "a.b", "b", "aB", "éé", "tx-77"),
    *("\n", "a\n", "ab", "ba", "a" * 15),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_as_python_matches(pattern: str) -> None:
    linear, backtracking = LinearPattern(pattern), re.compile(pattern)
    for text in TEXTS:
        assert linear.matches(text) == (backtracking.fullmatch(text) is not None), text


def any_pattern(source: random.Random, depth: int) -> str:
    if depth == 0:
        return source.choice(["a", "b", ".", "[ab]", "[^a]", "\\w", "c"])
    first, second = any_pattern(source, depth - 1), any_pattern(source, depth - 1)
    return source.choice(
        [f"{first}{second}", f"({first}|{second})", f"({first})*", f"(?:{first})+", f"({first}){{1,2}}"]
    )


def test_random_patterns_as_python_matches() -> None:
    source = random.Random(1)
    for _ in range(300):
        pattern = any_pattern(source, 3)
        linear, backtracking = LinearPattern(pattern), re.compile(pattern)
        for _ in range(10):
            text = "".join(source.choice("abc") for _ in range(source.randrange(7)))
            assert linear.matches(text) == (backtracking.fullmatch(text) is not None), (pattern, text)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a*)*b", "(.*)*x", ".*.*.*.*.*x"])
def test_patterns_that_backtrack_exponentially_end_at_once(pattern: str) -> None:
    assert not LinearPattern(pattern).matches("a" * 30_000 + "!")


@pytest.mark.parametrize(
    "pattern",
    [
        "(a",
        "a(?=b)",
        "(a)\\1",
        "\\bx",
        "a{1,5000}",
        "((a{50}){50}){50}",
        "a++",
        "(" * 5_000,
        "[",
        "*",
        "(?P<n>a)(?P=n)",
    ],
)
def test_what_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        LinearPattern(pattern)


def test_a_pattern_that_takes_too_long_is_given_up() -> None:
    source = random.Random(1)
    pattern = LinearPattern("(a|b)*a" + "(a|b)" * 300)
    with pytest.raises(PatternError, match="too long"):
        pattern.matches("".join(source.choice("ab") for _ in range(30_000)))


def test_a_filter_tells_the_client_that_a_pattern_takes_too_long() -> None:
    shard = Shard()
    source = random.Random(1)
    shard.init("".join(source.choice("ab") for _ in range(30_000)))
    wanted = TransactionFilter(pattern="(a|b)*a" + "(a|b)" * 300)
    with expect(ErrorCode.INVALID_REGULAR_EXPRESSION):
        list(shard.core.list_transactions(wanted, shard.now))
