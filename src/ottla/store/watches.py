"""The watches of one store. A watch gets a single callback for several changes in quick succession."""

from collections.abc import Callable, Iterable, Sequence

from ottla.env.clock import Clock, Timer
from ottla.store.interface import check_path, is_under


class Watches:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watches: dict[PrefixWatch, None] = {}

    def add(self, callback: Callable[[], None], prefixes: Sequence[str]) -> "PrefixWatch":
        watch = PrefixWatch(self, callback, tuple(check_path(prefix) for prefix in prefixes))
        self._watches[watch] = None
        return watch

    def remove(self, watch: "PrefixWatch") -> None:
        self._watches.pop(watch, None)

    def notify(self, paths: Iterable[str]) -> None:
        waiting = [watch for watch in self._watches if watch.timer is None]
        if not waiting:
            return
        changed = list(paths)
        for watch in waiting:
            if any(is_under(path, prefix) for prefix in watch.prefixes for path in changed):
                watch.timer = self._clock.call_later(0, watch.fire)

    def notify_all(self) -> None:
        self.notify(prefix for watch in list(self._watches) for prefix in watch.prefixes)

    def cancel_all(self) -> None:
        for watch in list(self._watches):
            watch.cancel()


class PrefixWatch:
    __slots__ = ("_callback", "_watches", "prefixes", "timer")

    def __init__(self, watches: Watches, callback: Callable[[], None], prefixes: tuple[str, ...]) -> None:
        self._watches = watches
        self._callback = callback
        self.prefixes = prefixes
        self.timer: Timer | None = None
        """Set while a callback is scheduled. Further changes then schedule no second callback."""

    def fire(self) -> None:
        self.timer = None
        self._callback()

    def cancel(self) -> None:
        self._watches.remove(self)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
