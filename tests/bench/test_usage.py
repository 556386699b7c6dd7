import os
import subprocess
import sys
import time
from subprocess import PIPE

from bench.usage import (
    cpu_seconds_of,
    parse_children_seconds,
    parse_cpu_seconds,
    parse_status,
    tree_cpu_seconds_of,
    usage_of,
)

STAT = "4242 (a (strange) name) S 1 4242 4242 0 -1 4194560 100 0 0 0 150 50 7 8 20 0 40 0 100 1 2 3"


def test_cpu_time_is_user_and_system_time() -> None:
    assert parse_cpu_seconds(STAT, 100) == (1.5, 0.5)


def test_sizes_of_a_status() -> None:
    assert parse_status("Name:\tjava\nVmHWM:\t  2048 kB\nVmRSS:\t1024 kB\nThreads:\t4\n") == {
        "VmHWM": 2048,
        "VmRSS": 1024,
    }


def test_usage_of_this_process() -> None:
    before = usage_of(os.getpid())
    deadline = time.process_time() + 0.05
    while time.process_time() < deadline:
        pass
    assert cpu_seconds_of(os.getpid()) - before.cpu_seconds >= 0.03
    assert 0 < before.rss_bytes <= before.peak_rss_bytes
    with open(os.devnull) as one, open(os.devnull) as two:
        assert one.fileno() != two.fileno()
        assert usage_of(os.getpid()).open_files >= before.open_files + 2


def test_the_time_of_children_that_were_waited_for() -> None:
    assert parse_children_seconds(STAT, 100) == 0.15


def test_a_tree_has_the_time_of_its_children_running_or_ended() -> None:
    spin = "import time\nwhile time.process_time() < 0.1: pass\n"
    before = tree_cpu_seconds_of(os.getpid())
    subprocess.run([sys.executable, "-c", spin], check=True)
    ended = tree_cpu_seconds_of(os.getpid())
    assert ended - before >= 0.08
    with subprocess.Popen([sys.executable, "-uc", f"{spin}print()\ninput()"], stdin=PIPE, stdout=PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert tree_cpu_seconds_of(os.getpid()) - ended >= 0.08
        child.communicate(b"\n")
