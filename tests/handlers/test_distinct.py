from ottla.handlers.distinct import distinct


def test_each_partition_once_in_the_order_of_first_mention_with_its_last_item() -> None:
    named = distinct([("b", 1, "x"), ("a", 0, "y"), ("b", 0, "z"), ("b", 1, "last")])
    assert [(topic, list(items.items())) for topic, items in named.topics.items()] == [
        ("b", [(1, "last"), (0, "z")]),
        ("a", [(0, "y")]),
    ]
    assert named.repeated == {("b", 1)}
