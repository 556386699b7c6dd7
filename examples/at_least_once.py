"""At least once: process, then commit. Records processed but not committed before a crash are processed again.

python examples/at_least_once.py                                      with its own broker
python examples/at_least_once.py --bootstrap-server 127.0.0.1:9092    with a running broker
"""

from confluent_kafka import Consumer, Producer
from playground import FATAL_ORDER, FROM_START_TO_END, Playground, batches, die, number, open_playground, read, report

INVOICES = "it wrote the invoices, before it committed its offsets"


def work(playground: Playground, crash_after: str | None) -> None:
    settings = {
        "group.id": playground.group,
        "group.instance.id": "worker-1",  # The next process of this name takes over at once (KIP-345).
        "enable.auto.commit": False,
    }
    consumer = Consumer({**playground.client, **FROM_START_TO_END, **settings})
    producer = Producer({**playground.client, "enable.idempotence": True})

    consumer.subscribe([playground.orders])
    for orders in batches(consumer):
        for order in orders:
            producer.produce(playground.invoices, f"invoice for order {number(order)}")
        producer.flush()  # Wait for all acknowledgements: only then may the offsets be committed.
        if crash_after == INVOICES and FATAL_ORDER in map(number, orders):
            die()
        consumer.commit(message=orders[-1], asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    with open_playground("At least once: process, then commit.") as playground:
        playground.run_worker(work, crash_after=INVOICES)
        playground.run_worker(work)
        report(read(playground.bootstrap_servers, playground.invoices))
