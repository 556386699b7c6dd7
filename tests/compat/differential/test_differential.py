"""Every case of the table, against both brokers."""

import pytest

from tests.compat.differential.brokers import Pair, missing
from tests.compat.differential.case import Case, run
from tests.compat.differential.cases import CASES
from tests.compat.differential.known import KNOWN, known_reason, without_version
from tests.compat.differential.normal_form import differences

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.xdist_group("differential"),
    pytest.mark.timeout(600),
]


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_every_known_difference_is_a_case() -> None:
    names = {case.name for case in CASES}
    assert names | {without_version(name) for name in names} >= KNOWN.keys()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_both_brokers_give_the_same_answer(case: Case, pair: Pair) -> None:
    kafka, ottla = run(case, pair.kafka), run(case, pair.ottla)
    reason = known_reason(case.name)
    if reason:
        assert kafka != ottla, f"the answers are the same now, although: {reason}"
    else:
        assert ottla == kafka, "\n".join(differences(kafka, ottla))
