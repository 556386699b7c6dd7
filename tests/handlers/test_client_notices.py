from ottla.handlers.client_notices import ClientNotices


def test_once_for_each_client_and_cause() -> None:
    notices = ClientNotices()
    asked = [("a", "TLS"), ("a", "TLS"), ("b", "TLS"), ("a", "HTTP"), ("a", "TLS")]
    assert [notices.is_first(*each) for each in asked] == [True, False, True, True, False]


def test_clients_that_invent_names_take_bounded_memory() -> None:
    notices = ClientNotices()
    assert all(notices.is_first(str(number), "TLS") for number in range(5000))
    assert len(notices._given) <= 1000
