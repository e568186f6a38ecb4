"""The benchmark is the paper's, and never changes unnoticed."""

from collections import Counter

import pytest

from coevolve.core.seeds import digest
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.lake.domain import LakeDomain

PINNED = "0306b5e8ffbfed28e85d948a5ee3b671"


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return list(LakeDomain.suites["benchmark"]())


def test_content_is_pinned(tasks):
    assert digest(*(task.id for task in tasks)).hex() == PINNED


def test_composition(tasks):
    assert len(tasks) == len({task.id for task in tasks}) == 3_150
    groups = Counter((t.bucket["agents"], t.bucket["size"], t.bucket["wait_subset"]) for t in tasks)
    assert len(groups) == 63
    assert set(groups.values()) == {50}
    assert Counter(task.bucket["agents"] for task in tasks) == {3: 1_200, 4: 1_050, 5: 900}
    for subset in (0.25, 0.5, 0.75):
        waits = [t.data["needs_wait"] for t in tasks if t.bucket["wait_subset"] == subset]
        assert sum(waits) / len(waits) == pytest.approx(subset, abs=0.011)


def test_all_tasks_are_of_the_test_split_and_distinct_up_to_symmetry(tasks):
    domain = LakeDomain()
    assert {task.split for task in tasks} == {Split.TEST}
    assert len({domain.fingerprint(task) for task in tasks}) == len(tasks)


def test_hole_ratios_spread_from_a_tenth_to_a_half(tasks):
    holes = Counter(task.bucket["holes"] for task in tasks if task.bucket["size"] == 10)
    assert holes == dict.fromkeys((0.1, 0.2, 0.3, 0.4, 0.5), 90)
