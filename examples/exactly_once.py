"""Exactly once: one transaction contains the output and the offsets of its input. A crash keeps both or neither.

python examples/exactly_once.py                                      with its own broker
python examples/exactly_once.py --bootstrap-server 127.0.0.1:9092    with a running broker
"""

from confluent_kafka import Consumer, Producer
from playground import (
    FATAL_ORDER,
    FROM_START_TO_END,
    Playground,
    batches,
    die,
    number,
    open_playground,
    read,
    report,
    text,
)

INVOICES = "it wrote the invoices, before it added the offsets"
OFFSETS = "it added the offsets, before it committed the transaction"
COMMIT = "it committed the transaction"


def work(playground: Playground, crash_after: str | None) -> None:
    # The successor of this process must have the same transactional id, and no other process may have it.
    producer = Producer({**playground.client, "transactional.id": f"{playground.group}-worker-1"})
    # Fence other producers with this id, and abort the transaction that a crash left open.
    producer.init_transactions()
    settings = {
        "group.id": playground.group,
        "group.instance.id": "worker-1",  # The next process of this name takes over at once (KIP-345).
        "enable.auto.commit": False,  # The producer commits, in its transaction.
        "isolation.level": "read_committed",
    }
    consumer = Consumer({**playground.client, **FROM_START_TO_END, **settings})

    consumer.subscribe([playground.orders])
    for orders in batches(consumer):
        crash = crash_after if FATAL_ORDER in map(number, orders) else None
        producer.begin_transaction()
        for order in orders:
            producer.produce(playground.invoices, f"invoice for order {number(order)}")
        if crash == INVOICES:
            producer.flush()  # Write the invoices to the log before the crash. Otherwise the commit flushes them.
            die()
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        if crash == OFFSETS:
            producer.flush()
            die()
        producer.commit_transaction()
        if crash == COMMIT:
            die()
    consumer.close()


if __name__ == "__main__":
    with open_playground("Exactly once: consume, transform and produce in one transaction.") as playground:
        for crash_after in (INVOICES, OFFSETS, COMMIT, None):
            playground.run_worker(work, crash_after)
        everything = read(playground.bootstrap_servers, playground.invoices, "read_uncommitted")
        print("in log   ", text(everything), "(as read_uncommitted sees it)")
        report(read(playground.bootstrap_servers, playground.invoices, "read_committed"))
