"""A disk in memory that can lose power, fill up and fail. On a power loss, unsynced data may be lost or torn."""

import contextlib
import errno
import random
from collections.abc import Iterator

from ottla.env.disk import Buffer


class Node:
    """The content of a file, now and at its last sync."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.modified_ms = 0

    def lose_power(self, chance: random.Random) -> None:
        """Undo the changes since the last sync, keep a torn part of them, keep all, or keep all with a hole of
        zeros."""
        durable, data = self.durable, bytes(self.data)
        safe = _common_length(durable, data)
        outcome = chance.randrange(4)
        if outcome == 0:
            data = durable
        elif outcome == 1:
            data = data[: chance.randint(safe, len(data))]
        elif outcome == 2 and len(data) > safe:
            start = chance.randint(safe, len(data) - 1)
            stop = chance.randint(start, len(data))
            data = data[:start] + bytes(stop - start) + data[stop:]
        self.data = bytearray(data)
        self.durable = data


def _common_length(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)


class Directory:
    """The names in a directory, now and at the last sync, with the changes in between in their order."""

    def __init__(self) -> None:
        self.names: dict[str, Node | Directory] = {}
        self.durable: dict[str, Node | Directory] = {}
        self.history: list[dict[str, Node | Directory]] = []

    def changed(self) -> None:
        self.history.append(dict(self.names))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.history.clear()

    def lose_power(self, chance: random.Random) -> None:
        self.names = dict(chance.choice([self.durable, *self.history]))
        self.sync()
        for node in self.names.values():
            node.lose_power(chance)


class FaultFile:
    def __init__(self, disk: "FaultDisk", node: Node) -> None:
        self._disk = disk
        self._node = node
        self._boot = disk.boots

    def _check(self) -> None:
        assert self._boot == self._disk.boots, "a file of the process that crashed is used"

    def read(self, size: int, position: int) -> bytes:
        self._check()
        return bytes(self._node.data[position : position + size])

    def write(self, data: Buffer, position: int) -> None:
        self._check()
        room = self._disk.take_room(len(data))
        content = self._node.data
        if len(content) < position:
            content += bytes(position - len(content))
        content[position : position + room] = data[:room]
        self._node.modified_ms = self._disk.now_ms
        if room < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")

    def read_cached(self, size: int, position: int) -> bytearray | None:
        return bytearray(self.read(size, position))

    def truncate(self, size: int) -> None:
        self._check()
        content = self._node.data
        if size < len(content):
            del content[size:]
        else:
            content += bytes(size - len(content))

    def size(self) -> int:
        return len(self._node.data)

    def sync(self) -> None:
        self._check()
        if self._disk.sync_fails:
            raise OSError(errno.EIO, "Input/output error")
        self._node.durable = bytes(self._node.data)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "this file is in memory")

    def close(self) -> None:
        pass


class FaultDisk:
    """Implements `ottla.env.disk.Disk`. Paths are absolute and `/` is the root."""

    def __init__(self) -> None:
        self.boots = 0
        self.now_ms = 0
        self.room: int | None = None
        """Bytes that can still be written; None for no limit."""
        self.sync_fails = False
        self.read_only = False
        self._root = Directory()
        self._locks: set[str] = set()

    def take_room(self, wanted: int) -> int:
        if self.room is None:
            return wanted
        taken = min(self.room, wanted)
        self.room -= taken
        return taken

    def kill(self) -> None:
        """End the process. The operating system survives, so all written data is kept."""
        self.boots += 1
        self._locks.clear()

    def lose_power(self, chance: random.Random) -> None:
        self.kill()
        self._root.lose_power(chance)

    def _walk(self, path: str) -> Node | Directory:
        found: Node | Directory = self._root
        for name in filter(None, path.split("/")):
            if not isinstance(found, Directory) or name not in found.names:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            found = found.names[name]
        return found

    def _directory(self, path: str) -> Directory:
        found = self._walk(path)
        if not isinstance(found, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return found

    def _node(self, path: str) -> Node:
        found = self._walk(path)
        if not isinstance(found, Node):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return found

    def _parent(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name

    def open(self, path: str, *, create: bool = False) -> FaultFile:
        parent, name = self._parent(path)
        if create and name not in parent.names:
            if self.room == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            node = Node()
            node.modified_ms = self.now_ms
            parent.names[name] = node
            parent.changed()
        return FaultFile(self, self._node(path))

    def exists(self, path: str) -> bool:
        try:
            self._walk(path)
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        return len(self._node(path).data)

    def modified_ms(self, path: str) -> int:
        return self._node(path).modified_ms

    def list(self, path: str) -> list[str]:
        return sorted(self._directory(path).names)

    def make_directory(self, path: str) -> None:
        current = self._root
        for name in filter(None, path.split("/")):
            if name not in current.names:
                current.names[name] = Directory()
                current.changed()
            found = current.names[name]
            assert isinstance(found, Directory)
            current = found

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._node(path).data)

    def replace_bytes(self, path: str, data: bytes) -> None:
        if self.take_room(len(data)) < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        parent, name = self._parent(path)
        node = Node()
        node.data = bytearray(data)
        node.durable = data
        parent.names[name] = node
        parent.sync()

    def rename(self, old: str, new: str) -> None:
        parent, name = self._parent(old)
        target, new_name = self._parent(new)
        assert parent is target, "only renames within a directory are modelled"
        parent.names[new_name] = parent.names.pop(name)
        parent.changed()

    def remove(self, path: str) -> None:
        parent, name = self._parent(path)
        if parent.names.pop(name, None) is not None:
            parent.changed()

    def remove_tree(self, path: str) -> None:
        parent, name = self._parent(path)
        del parent.names[name]
        parent.changed()

    def sync_directory(self, path: str) -> None:
        self._directory(path).sync()

    def usage(self, path: str) -> tuple[int, int]:
        return 1 << 40, 1 << 40 if self.room is None else self.room

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        if self.read_only:
            raise OSError(errno.EROFS, "Read-only file system", path)
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        boot = self.boots
        self._locks.add(path)
        try:
            yield
        finally:
            if boot == self.boots:
                self._locks.discard(path)
