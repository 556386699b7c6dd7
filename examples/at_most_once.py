"""At most once: commit, then process. Records committed but not processed before a crash are lost.

python examples/at_most_once.py                                      with its own broker
python examples/at_most_once.py --bootstrap-server 127.0.0.1:9092    with a running broker
"""

from confluent_kafka import Consumer, Producer
from playground import FATAL_ORDER, FROM_START_TO_END, Playground, batches, die, number, open_playground, read, report

COMMIT = "it committed its offsets, before it wrote the invoices"


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
        consumer.commit(message=orders[-1], asynchronous=False)
        if crash_after == COMMIT and FATAL_ORDER in map(number, orders):
            die()
        for order in orders:
            producer.produce(playground.invoices, f"invoice for order {number(order)}")
        producer.flush()
    consumer.close()


if __name__ == "__main__":
    with open_playground("At most once: commit, then process.") as playground:
        playground.run_worker(work, crash_after=COMMIT)
        playground.run_worker(work)
        report(read(playground.bootstrap_servers, playground.invoices))
