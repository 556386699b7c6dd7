"""Regular expressions of clients, matched in linear time.

Python's `re` backtracks, so a short pattern can block the whole broker for a very long time. Kafka uses RE2 for that
reason. This module lets Python parse the pattern, and simulates a state machine (Thompson's algorithm). As in RE2,
there are no references to groups, and no assertions except for the start and the end of the text.
"""

import re
from collections.abc import Iterable
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

MAX_STATES = 2_000
"""The most states of a pattern. A repetition with a count copies its states that many times."""

MAX_STEPS = 500_000
"""The most state visits of one pattern before matching fails. Cached steps do not count."""

_MAX_CACHED = 20_000

_STARTS = {_constants.AT_BEGINNING, _constants.AT_BEGINNING_STRING}
_ENDS = {_constants.AT_END, _constants.AT_END_STRING}
_REPEATS = {_constants.MAX_REPEAT, _constants.MIN_REPEAT}
_CHARACTERS = {_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN}


class PatternError(ValueError):
    """The pattern is malformed, or not supported by this module."""


class _State(NamedTuple):
    """A state without a test reads no character. `at_start` and `at_end` allow it only at that end of the text."""

    test: re.Pattern[str] | None
    at_start: bool
    at_end: bool
    targets: list[int]


class LinearPattern:
    def __init__(self, pattern: str) -> None:
        """Raises PatternError."""
        try:
            parsed = _parser.parse(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise PatternError(str(error)) from error
        self._flags = parsed.state.flags
        self._states: list[_State] = []
        self._steps = 0
        self._cache: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._final = self._add([])
        try:
            self._start = self._sequence(parsed, self._final, self._flags)
        except RecursionError as error:
            raise PatternError("the pattern is nested too deeply") from error

    def matches(self, text: str) -> bool:
        """Whether the whole text matches. Raises PatternError if matching takes too long."""
        states = self._closure([self._start], at_start=True)
        for character in text:
            key = states, character
            following = self._cache.get(key)
            if following is None:
                following = self._follow(states, character)
                if len(self._cache) >= _MAX_CACHED:
                    self._cache.clear()
                self._cache[key] = following
            states = following
            if not states:
                return False
        return self._final in self._closure(states, at_start=not text, at_end=True)

    # Matching

    def _follow(self, states: frozenset[int], character: str) -> frozenset[int]:
        reached = []
        for number in states:
            test = self._states[number].test
            if test is not None and test.match(character):
                reached += self._states[number].targets
        return self._closure(reached)

    def _closure(self, numbers: Iterable[int], *, at_start: bool = False, at_end: bool = False) -> frozenset[int]:
        """The states that can be reached without reading a character."""
        reached: set[int] = set()
        unvisited = list(numbers)
        while unvisited:
            number = unvisited.pop()
            if number in reached:
                continue
            reached.add(number)
            state = self._states[number]
            if state.test is None and state.at_start <= at_start and state.at_end <= at_end:
                unvisited += state.targets
        self._steps += len(reached)
        if self._steps > MAX_STEPS:
            raise PatternError("matching takes too long")
        return frozenset(reached)

    # Compiling: each method returns the first state of a part. The part ends in the state `after`.

    def _add(
        self,
        targets: list[int],
        test: re.Pattern[str] | None = None,
        *,
        at_start: bool = False,
        at_end: bool = False,
    ) -> int:
        if len(self._states) >= MAX_STATES:
            raise PatternError(f"the pattern needs more than {MAX_STATES} states")
        self._states.append(_State(test, at_start, at_end, targets))
        return len(self._states) - 1

    def _sequence(self, items: Any, after: int, flags: int) -> int:
        for operator, argument in reversed(list(items)):
            after = self._part(operator, argument, after, flags)
        return after

    def _part(self, operator: Any, argument: Any, after: int, flags: int) -> int:
        if operator in _CHARACTERS:
            return self._add([after], _single(operator, argument, flags))
        if operator in _REPEATS:
            return self._repeat(argument, after, flags)
        if operator is _constants.BRANCH:
            return self._add([self._sequence(branch, after, flags) for branch in argument[1]])
        if operator is _constants.SUBPATTERN:
            _, added, removed, items = argument
            return self._sequence(items, after, (flags | added) & ~removed)
        if operator is _constants.AT and argument in _STARTS:
            return self._add([after], at_start=True)
        if operator is _constants.AT and argument in _ENDS:
            return self._add([after], at_end=True)
        raise PatternError(f"{str(operator).lower()} is not supported")

    def _repeat(self, argument: Any, after: int, flags: int) -> int:
        least, most, items = argument
        if most is _constants.MAXREPEAT:
            loop = self._add([after])
            self._states[loop].targets.append(self._sequence(items, loop, flags))
            first = loop
        else:
            first = after
            for _ in range(most - least):
                first = self._add([after, self._sequence(items, first, flags)])
        for _ in range(least):
            # Add a state even for an empty sequence, so that its copies count against MAX_STATES.
            first = self._add([self._sequence(items, first, flags)])
        return first


def _single(operator: Any, argument: Any, flags: int) -> re.Pattern[str]:
    """A pattern for one character. It cannot backtrack."""
    state = _parser.State()
    state.flags = flags
    state.str = ""
    return _compiler.compile(_parser.SubPattern(state, [(operator, argument)]), flags)  # type: ignore[no-any-return]
