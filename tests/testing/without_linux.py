"""An embedded broker and a client in a process in which the system calls that only Linux has are missing.

Run it with a directory and a number of records. It prints the files of /proc that Python code opened, and how many
records the client got back. Never import it: it changes the process.
"""

import os
import select
import socket
import sys
import time

for module, names in (
    (os, ("RWF_NOWAIT", "fdatasync", "posix_fadvise", "posix_fallocate", "preadv", "pwritev", "sendfile", "splice")),
    (os, ("copy_file_range", "eventfd", "memfd_create", "pidfd_open", "sched_getaffinity")),
    (socket, ("MSG_MORE", "TCP_CORK", "TCP_QUICKACK", "TCP_USER_TIMEOUT", "SOCK_CLOEXEC", "SOCK_NONBLOCK")),
    (select, ("epoll",)),
    (time, ("pthread_getcpuclockid",)),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)

opened: list[str] = []


def record_proc(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and str(arguments[0]).startswith("/proc/"):
        opened.append(str(arguments[0]))


sys.addaudithook(record_proc)

from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402

from ottla.testing.embedded import embedded  # noqa: E402

RECORDS = int(sys.argv[2])
SETTINGS = {"log.flush.interval.messages": "1", "auto.create.topics.enable": "true"}


def value(number: int) -> bytes:
    return bytes([number]) * 900_000


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce("clicks", value(number), partition=0)
    assert producer.flush(60) == 0


def consume(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False})
    consumer.assign([TopicPartition("clicks", 0, 0)])
    deadline = time.monotonic() + 60
    count = 0
    while count < RECORDS and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            assert message.value() == value(count)
            count += 1
    consumer.close()
    return count


def main() -> None:
    with embedded(SETTINGS, data_dir=sys.argv[1]) as broker:
        produce(broker.bootstrap_servers)
        first = consume(broker.bootstrap_servers)
    with embedded(SETTINGS, data_dir=sys.argv[1]) as broker:
        second = consume(broker.bootstrap_servers)
    print(f"opened {opened}, consumed {first} and {second}")


if __name__ == "__main__":
    main()
