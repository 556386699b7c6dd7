"""The table of all cases, by subject."""

from tests.compat.differential import (
    cluster_cases,
    config_cases,
    group_cases,
    offset_cases,
    record_cases,
    topic_cases,
    transaction_cases,
)

CASES = (
    *cluster_cases.CASES,
    *topic_cases.CASES,
    *config_cases.CASES,
    *record_cases.CASES,
    *group_cases.CASES,
    *offset_cases.CASES,
    *transaction_cases.CASES,
)
