"""Print the cases whose answers differ: `python -m tests.compat.differential [part of a name]`."""

import sys
import tempfile
from pathlib import Path

from tests.compat.differential.brokers import missing, running_pair
from tests.compat.differential.case import run
from tests.compat.differential.cases import CASES
from tests.compat.differential.known import known_reason
from tests.compat.differential.normal_form import differences
from tests.compat.differential.world import set_up


def main() -> int:
    reason = missing()
    if reason is not None:
        sys.exit(reason)
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    different = 0
    with tempfile.TemporaryDirectory(prefix="ottla-differential-") as directory, running_pair(Path(directory)) as pair:
        for bootstrap in pair:
            set_up(bootstrap)
        for case in CASES:
            if wanted not in case.name:
                continue
            kafka, ottla = run(case, pair.kafka), run(case, pair.ottla)
            if kafka != ottla:
                different += 1
                print(f"{case.name} ({known_reason(case.name) or 'not known'})")
                for line in differences(kafka, ottla):
                    print(f"    {line}")
    print(f"{different} cases differ")
    return 0


sys.exit(main())
