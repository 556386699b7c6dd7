"""The fixtures in another project: pytest runs in its own process, on tests that are written here."""

import subprocess
import sys

import pytest

MODULES_OF_THE_PLUGIN = ["ottla", "ottla.testing", "ottla.testing.plugin"]
LEAN = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:timeout")
"""Disables plugins that these tests do not need, because each test starts a process."""


def test_fixtures_in_a_fresh_project(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_first="""
        import pytest
        from confluent_kafka import Consumer, Producer
        from confluent_kafka.admin import AdminClient

        seen = set()

        def test_produce_and_consume(ottla_broker, ottla_topic):
            config = {"bootstrap.servers": ottla_broker.bootstrap_servers}
            producer = Producer(config)
            producer.produce(ottla_topic, b"hello")
            assert producer.flush(60) == 0
            consumer = Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"})
            consumer.subscribe([ottla_topic])
            message = consumer.poll(60)
            assert message.value() == b"hello"
            consumer.close()

        @pytest.mark.parametrize("name", ["a/b", "ä ö", "x" * 300, "..", ""])
        def test_every_test_has_a_topic_of_its_own(ottla_broker, ottla_topic, name):
            topics = AdminClient({"bootstrap.servers": ottla_broker.bootstrap_servers}).list_topics().topics
            assert ottla_topic.startswith("test_every_test_has_a_topic")
            assert len(topics[ottla_topic].partitions) == 1
            assert ottla_topic not in seen
            seen.add(ottla_topic)

        class TestInAClass:
            def test_method(self, ottla_topic):
                assert ottla_topic.startswith("test_method-")

        def test_one(ottla_broker):
            print("BROKER", ottla_broker.bootstrap_servers)
        """,
        test_second="""
        def test_two(ottla_broker):
            print("BROKER", ottla_broker.bootstrap_servers)
            assert not ottla_broker.bootstrap_servers.endswith(":9092")
        """,
    )
    result = pytester.runpytest_subprocess(*LEAN, "-s", "-W", "error")
    result.assert_outcomes(passed=9)
    brokers = {line.split()[-1] for line in result.outlines if "BROKER" in line}
    assert len(brokers) == 1, "one broker for the whole session"


def test_the_brokers_log_is_shown_with_a_failure(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_with_broker(ottla_topic):
            assert False

        def test_without_broker():
            assert False

        def test_that_passes(ottla_broker):
            pass
        """
    )
    result = pytester.runpytest_subprocess(*LEAN, "-p", "no:logging")
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ test_with_broker _*",
            "*- Ottla broker log -*",
            "*this broker is the controller*",
            "*_ test_without_broker _*",
        ]
    )
    assert sum("Ottla broker log" in line for line in result.outlines) == 1


def test_settings_in_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        ottla_settings =
            num.partitions = 3
            log.retention.ms=5000
        ottla_partitions = 4
        """
    )
    pytester.makepyfile(
        """
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, ConfigResource

        def test_settings(ottla_broker, ottla_topic):
            admin = AdminClient({"bootstrap.servers": ottla_broker.bootstrap_servers})
            assert len(admin.list_topics().topics[ottla_topic].partitions) == 4
            producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
            producer.produce("made-by-itself", b"x")
            producer.flush(60)
            assert len(admin.list_topics().topics["made-by-itself"].partitions) == 3
            resource = ConfigResource(ConfigResource.Type.TOPIC, ottla_topic)
            found = admin.describe_configs([resource])[resource].result(60)
            assert found["retention.ms"].value == "5000"
        """
    )
    pytester.runpytest_subprocess(*LEAN).assert_outcomes(passed=1)


def test_every_xdist_worker_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_it(ottla_broker, ottla_topic, ottla_cluster, worker_id, number):
            with open(f"{worker_id}.txt", "a") as file:
                print(ottla_broker.bootstrap_servers, file=file)
            with open(f"{worker_id}-cluster.txt", "a") as file:
                print(ottla_cluster.bootstrap_servers, file=file)
        """
    )
    pytester.runpytest_subprocess(*LEAN, "-n", "2", "--dist", "each").assert_outcomes(passed=6)
    brokers = [set((pytester.path / f"gw{number}.txt").read_text().split()) for number in range(2)]
    assert [len(addresses) for addresses in brokers] == [1, 1]
    assert brokers[0] != brokers[1]
    clusters = [set((pytester.path / f"gw{number}-cluster.txt").read_text().split()) for number in range(2)]
    assert [len(addresses) for addresses in clusters] == [1, 1]
    assert clusters[0] != clusters[1]


def test_a_cluster_in_a_fresh_project(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nottla_settings = num.partitions=5")
    pytester.makepyfile(
        """
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        def test_three_brokers(ottla_cluster):
            ottla_cluster.create_topic("clicks")
            former = ottla_cluster.leader_of("clicks")
            former.kill()
            producer = Producer({"bootstrap.servers": ottla_cluster.bootstrap_servers})
            producer.produce("clicks", "hello")
            assert producer.flush(60) == 0
            assert [record.value for record in ottla_cluster.consume("clicks", 1, timeout=60)] == [b"hello"]

        def test_the_killed_broker_is_back(ottla_cluster):
            ottla_cluster.wait_until_in_sync()
            admin = AdminClient({"bootstrap.servers": ottla_cluster.bootstrap_servers})
            assert len(admin.list_topics(timeout=60).brokers) == 3
            ottla_cluster.create_topic("by-default", -1)
            assert len(admin.list_topics(timeout=60).topics["by-default"].partitions) == 5
        """
    )
    pytester.runpytest_subprocess(*LEAN, "-W", "error").assert_outcomes(passed=2)


def test_a_test_leaves_no_faults_behind(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka import Consumer, Producer

        def send(ottla_broker, ottla_topic):
            producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
            producer.produce(ottla_topic, b"hello")
            assert producer.flush(60) == 0

        @pytest.fixture
        def faults_at_the_end(ottla_broker):
            yield
            assert ottla_broker.faults.active == ()
            assert ottla_broker.is_running and not ottla_broker.is_paused
            ottla_broker.faults.drop_connection("Produce", times=None)

        def test_faults(ottla_broker, faults_at_the_end):
            ottla_broker.faults.drop_connection("Produce", times=None)
            ottla_broker.faults.fail("Metadata", "UNKNOWN_SERVER_ERROR", times=None)

        def test_kill(ottla_broker, ottla_topic, faults_at_the_end):
            assert ottla_broker.faults.active == ()
            send(ottla_broker, ottla_topic)
            ottla_broker.kill()

        def test_pause(ottla_broker, ottla_topic, faults_at_the_end):
            send(ottla_broker, ottla_topic)
            ottla_broker.pause()

        def test_failure(ottla_broker, ottla_topic):
            send(ottla_broker, ottla_topic)
            ottla_broker.kill()
            assert False

        def test_the_last(ottla_broker, ottla_topic):
            send(ottla_broker, ottla_topic)
            ottla_broker.kill()
        """
    )
    result = pytester.runpytest_subprocess(*LEAN, "-W", "error")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*- Ottla broker log -*", "*was not closed cleanly*"])


def test_fixtures_in_an_asyncio_test(pytester: pytest.Pytester) -> None:
    """The methods of the broker also work where an event loop runs."""
    pytester.makepyfile(
        """
        import asyncio
        from aiokafka import AIOKafkaProducer

        def test_it(ottla_broker, ottla_topic, ottla_cluster):
            async def send():
                async with AIOKafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
                    await producer.send_and_wait(ottla_topic, b"hello")
                assert [record.value for record in ottla_broker.consume(ottla_topic)] == [b"hello"]
                ottla_cluster.create_topic("clicks")
                assert ottla_cluster.leader_of("clicks").is_running

            asyncio.run(send())
        """
    )
    pytester.runpytest_subprocess(*LEAN).assert_outcomes(passed=1)


def test_who_does_not_ask_for_a_broker_does_not_pay_for_one(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nottla_settings = num.partitions")
    pytester.makepyfile(
        f"""
        import sys

        def test_modules():
            assert sorted(name for name in sys.modules if name.partition(".")[0] == "ottla") == {MODULES_OF_THE_PLUGIN}
            assert "confluent_kafka" not in sys.modules
            assert "uvloop" not in sys.modules

        def test_who_asks_is_told_what_is_wrong_with_the_settings(ottla_broker):
            pass
        """
    )
    result = pytester.runpytest_subprocess(*LEAN)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ottla_settings needs key=value, not 'num.partitions'*"])


def test_the_plugin_imports_nothing_but_pytest() -> None:
    code = "import pytest, sys; known = set(sys.modules); import ottla.testing.plugin; print(*set(sys.modules) - known)"
    added = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(name for name in added if name.startswith("ottla")) == MODULES_OF_THE_PLUGIN
    assert len(added) < 10, added
