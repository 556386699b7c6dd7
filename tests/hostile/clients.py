"""The hostile clients: each sends bursts of requests over one connection after the other, and reads what comes back."""

import contextlib
import random
import socket
import struct
from abc import ABC, abstractmethod
from collections import Counter, deque

from ottla.wire import WireError, codec
from ottla.wire.api import FETCH, JOIN_GROUP, PRODUCE, SYNC_GROUP
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.init_producer_id import InitProducerIdResponse
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.framing import parse_response_header
from tests.hostile.batches import Producer
from tests.hostile.damage import SENTINEL, SENTINEL_ID, Damage, ends_within_a_frame
from tests.hostile.requests import CORRELATION_AT, Requests, Template
from tests.hostile.values import Member, World

MAX_BURST = 16
_MAX_DAMAGED_BURST = 3
"""Most damaged requests end their connection, and what was sent after them is not looked at."""
_REMEMBERED = 48
"""Requests of a connection that a report about it shows."""
_KEPT_HISTORIES = 3000
_MAX_LEFT_OPEN = 150
_MAX_DECODED = 20_000
"""Larger replies are only counted."""

CONNECTIONS = "connections"
LEFT_OPEN = "left open within a frame"
ABANDONED = "closed while they waited for a reply"
SURVIVED = "bursts of damaged requests that their connection survived"

WAITING = {FETCH.key, JOIN_GROUP.key, SYNC_GROUP.key, PRODUCE.key}
"""APIs whose reply may be due only when something else happens, or never."""
WAITING_PATIENCE = 0.3
PATIENCE = 60.0


class Shared:
    """What all clients share: the broker's address, and what is remembered about their connections."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._address = (host, int(port))
        self.histories: dict[int, deque[bytes]] = {}
        """By the port of a connection: what was sent over it last."""
        self._left_open: deque[socket.socket] = deque()
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []

    def connect(self) -> tuple[socket.socket, deque[bytes]]:
        connection = socket.create_connection(self._address, timeout=PATIENCE)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        history: deque[bytes] = deque(maxlen=_REMEMBERED)
        self.histories[connection.getsockname()[1]] = history
        if len(self.histories) > _KEPT_HISTORIES:
            del self.histories[next(iter(self.histories))]
        self.counts[CONNECTIONS] += 1
        return connection, history

    def leave_open(self, connection: socket.socket) -> None:
        """Leave a connection open in the middle of a frame, for a while."""
        self.counts[LEFT_OPEN] += 1
        self._left_open.append(connection)
        if len(self._left_open) > _MAX_LEFT_OPEN:
            self._left_open.popleft().close()

    def close(self) -> None:
        while self._left_open:
            self._left_open.pop().close()


class HostileClient(ABC):
    """One connection at a time, `left` requests to send. Makes no system call that waits."""

    def __init__(self, seed: str, shared: Shared, count: int) -> None:
        self.left = count
        self.last_heard = 0.0
        self.socket: socket.socket | None = None
        self._rng = random.Random(seed)
        self._shared = shared
        self._history: deque[bytes] = deque()
        self._inbox = bytearray()
        self.outbox = memoryview(b"")

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether the next burst may be sent."""

    @property
    @abstractmethod
    def done(self) -> bool: ...

    @abstractmethod
    def _burst(self) -> bytes: ...

    @abstractmethod
    def _replied(self, reply: memoryview) -> None: ...

    @abstractmethod
    def gives_up(self, silence: float) -> bool:
        """Whether to give the connection up after so many seconds without a reply."""

    def connect(self, now: float) -> socket.socket:
        self.socket, self._history = self._shared.connect()
        self.last_heard = now
        self._inbox.clear()
        self.outbox = memoryview(b"")
        return self.socket

    def disconnected(self) -> None:
        """Forget the connection; the caller closes it."""
        self.socket = None

    def attack(self, now: float) -> bool:
        """Send the next burst, as far as it goes. False when the connection is to be closed."""
        self.last_heard = now
        self.outbox = memoryview(self._burst())
        return self.flush()

    def flush(self) -> bool:
        assert self.socket is not None
        try:
            while self.outbox:
                self.outbox = self.outbox[self.socket.send(self.outbox) :]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def receive(self, now: float) -> bool:
        assert self.socket is not None
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            return False
        self.last_heard = now
        self._inbox += data
        self._cut_replies()
        return True

    def _cut_replies(self) -> None:
        inbox, position = self._inbox, 0
        view = memoryview(inbox)
        while len(inbox) - position >= 4:
            (size,) = struct.unpack_from(">i", inbox, position)
            if len(inbox) - position - 4 < size:
                break
            self._replied(view[position + 4 : position + 4 + size])
            position += 4 + size
        view.release()
        del inbox[:position]

    def _remember(self, data: bytes | bytearray) -> None:
        self._history.append(bytes(data))


class WellFormedClient(HostileClient):
    """Sends well-formed requests and learns from the replies what to ask for next."""

    def __init__(self, seed: str, shared: Shared, count: int, requests: Requests, world: World) -> None:
        super().__init__(seed, shared, count)
        self._requests = requests
        self._world = world
        self._pending: deque[tuple[int, Template]] = deque()
        self._next_id = 0

    @property
    def ready(self) -> bool:
        return self.left > 0 and len(self._pending) < MAX_BURST // 2

    @property
    def done(self) -> bool:
        return self.left == 0 and not any(template.expects_reply for _, template in self._pending)

    def _burst(self) -> bytes:
        out = bytearray()
        for _ in range(min(self.left, self._rng.randint(1, MAX_BURST))):
            template = self._requests.draw()
            struct.pack_into(">i", template.data, CORRELATION_AT, self._next_id)
            self._pending.append((self._next_id, template))
            self._next_id = (self._next_id + 1) & 0x7FFFFFFF
            out += template.data
            self._remember(template.data)
            self._shared.counts[template.api.name] += 1
            self.left -= 1
        return bytes(out)

    def disconnected(self) -> None:
        super().disconnected()
        self._pending.clear()

    def _replied(self, reply: memoryview) -> None:
        (number,) = struct.unpack_from(">i", reply)
        while self._pending:
            expected, template = self._pending.popleft()
            if expected == number:
                self._learn(template, reply)
                return
            if template.expects_reply:
                self._shared.findings.append(f"request {expected}, {template.api.name}, got no reply: {self.shown()}")
        self._shared.findings.append(f"a reply to {number}, which was not sent: {self.shown()}")

    def gives_up(self, silence: float) -> bool:
        waiting = next((template for _, template in self._pending if template.expects_reply), None)
        if waiting is None or waiting.api.key in WAITING:
            self._shared.counts[ABANDONED] += silence > WAITING_PATIENCE
            return silence > WAITING_PATIENCE
        if silence <= PATIENCE:
            return False
        self._shared.findings.append(f"{waiting.api.name} was not answered for {PATIENCE:.0f} s: {self.shown()}")
        return True

    def shown(self) -> str:
        """The unanswered requests, to send them again."""
        return " ".join(bytes(template.data).hex()[:4000] for _, template in list(self._pending)[:3])

    def _learn(self, template: Template, reply: memoryview) -> None:
        api, version = template.api, template.version
        if len(reply) > _MAX_DECODED:
            return
        try:
            position = parse_response_header(api.key, version, reply).body_position
            response, end = codec.decode(api.response, reply, version, position)
            assert end == len(reply), f"{len(reply) - end} bytes after its end"
        except (WireError, AssertionError) as error:
            self._shared.findings.append(
                f"the reply to {bytes(template.data).hex()} cannot be read: {error}: {reply.hex()}"
            )
            return
        if isinstance(response, JoinGroupResponse) and response.member_id:
            group = str(getattr(template.request, "group_id", ""))
            self._world.members[group] = Member(response.member_id, response.generation_id)
        elif isinstance(response, InitProducerIdResponse) and response.producer_id >= 0:
            producer = Producer(response.producer_id, response.producer_epoch)
            self._world.producers[str(getattr(template.request, "transactional_id", ""))] = producer
        elif isinstance(response, FetchResponse) and response.session_id:
            self._world.sessions.append(response.session_id)


class DamagedClient(HostileClient):
    """Sends damaged requests, and after each burst one that is in order to see whether the connection still works."""

    def __init__(self, seed: str, shared: Shared, count: int, damage: Damage) -> None:
        super().__init__(seed, shared, count)
        self._damage = damage
        self._awaits_sentinel = False
        self._half = False

    @property
    def ready(self) -> bool:
        return self.left > 0 and not self._awaits_sentinel

    @property
    def done(self) -> bool:
        return self.left == 0 and not self._awaits_sentinel

    def _burst(self) -> bytes:
        out = bytearray()
        for _ in range(min(self.left, self._rng.randint(1, _MAX_DAMAGED_BURST))):
            data = self._damage.draw()
            out += data
            self._remember(data)
            self.left -= 1
        self._half = ends_within_a_frame(out)
        self._awaits_sentinel = True
        return bytes(out if self._half else out + SENTINEL)

    def disconnected(self) -> None:
        super().disconnected()
        self._awaits_sentinel = False

    def _replied(self, reply: memoryview) -> None:
        if len(reply) >= 4 and struct.unpack_from(">i", reply)[0] == SENTINEL_ID:
            self._awaits_sentinel = False
            self._shared.counts[SURVIVED] += 1

    def gives_up(self, silence: float) -> bool:
        """A long-poll with a damaged timeout may last for days; a frame that was begun may never end."""
        if not self._half and silence <= WAITING_PATIENCE:
            return False
        if self.socket is not None and not self.outbox:
            with contextlib.suppress(OSError):
                self._shared.leave_open(self.socket.dup())
        return True
