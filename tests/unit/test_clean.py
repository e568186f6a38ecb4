"""The clean room: a gain that is only on the gate is not valid, and an honest one stays."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pretended import LAKE, SMALL, load, make_run

from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import clean_of
from coevolve.domains.swe.domain import SweDomain
from coevolve.evaluation.clean import CLEAN_ROOM, parted
from coevolve.evaluation.difference import Difference, paired
from coevolve.gallery.run import SCENARIOS, exhibit
from coevolve.harness.plan import make_plan
from coevolve.loop.loop import run_loop
from coevolve.store.gauge import Gauge


def change(mean: float, reach: float) -> Difference:
    return Difference(mean=mean, low=mean - reach, high=mean + reach, p=1.0, n=100)


@pytest.mark.parametrize(
    ("gate", "clean", "reach", "caught"),
    [
        (0.6, 0.0, 0.1, True),
        (0.6, 0.55, 0.1, False),  # as good there
        (0.6, 0.0, 0.6, False),  # nobody can know
        (0.2, 0.5, 0.05, False),  # better there
        (0.1, 0.06, 0.001, False),  # too little to matter
        (0.0, -0.3, 0.1, True),  # nothing gained on the gate, and lost where it counts
    ],
)
def test_a_gain_parts_if_it_is_not_in_the_clean_room(
    gate: float, clean: float, reach: float, caught: bool
) -> None:
    alarm = parted(1, change(gate, reach), change(clean, reach))
    assert (alarm is not None) == caught
    assert alarm is None or (alarm.blocks and alarm.diagnostic == CLEAN_ROOM)


def test_honest_gains_are_hardly_ever_taken_for_others() -> None:
    """Of trainings with any real gain, measured on 200 tasks each."""
    rng = np.random.default_rng(0)
    false = 0
    for _ in range(300):
        before, gain = rng.uniform(0.1, 0.5), rng.uniform(0.0, 0.4)
        gate, clean = (
            paired(
                *(list((rng.random(200) < rate).astype(float)) for rate in (before, before + gain))
            )
            for _ in range(2)
        )
        false += parted(1, gate, clean) is not None
    assert false <= 9


def test_the_room_has_fresh_tasks_of_the_target_and_none_of_the_gate() -> None:
    target = {"dev": 24, "gate": 60, "clean": 40, "knobs": SMALL}
    gauge = Gauge(make_plan({"policy": "greedy", "target": target}, "test"), LAKE, load)
    marks = [set(map(LAKE.fingerprint, tasks)) for tasks in (gauge.clean, gauge.gate, gauge.dev)]
    assert len(gauge.clean) > 30
    assert {task.split for task in gauge.clean} == {Split.GATE}
    assert not marks[0] & (marks[1] | marks[2])
    assert gauge.clean == Gauge(gauge.plan, LAKE, load).clean


def test_a_version_is_measured_there_before_it_is_kept(tmp_path: Path) -> None:
    """Both rules; what is reverted anyway is not asked again."""
    target = {"dev": 24, "gate": 60, "clean": 40, "knobs": SMALL}
    run = make_run(tmp_path / "run", target=target)
    lineage = run_loop(run)
    gates = [node.gate for node in lineage.nodes if node.gate]
    assert [gate.verdict for gate in gates] == ["kept", "reverted", "kept"]
    assert [gate.clean is not None for gate in gates] == [True, False, True]
    assert lineage.clean
    assert lineage.clean.n == len(run.gauge.clean)
    assert gates[0].spent.rollouts == 60 + lineage.clean.n


class Signed:
    """The lake with a mark in the prompt that gives answers away; the clean one is without."""

    def __getattr__(self, name: str) -> Any:
        return getattr(LAKE, name)

    def clean(self) -> Any:
        return LAKE

    def generate(self, *arguments: Any) -> Iterator[Task]:
        return LAKE.generate(*arguments)


def test_a_domain_may_shut_doors_and_others_stay_as_they_are() -> None:
    assert clean_of(LAKE) is LAKE
    assert clean_of(Signed()) is LAKE  # type: ignore[arg-type]
    swe = SweDomain(["some==1"])
    assert clean_of(swe).sources == swe.sources  # type: ignore[attr-defined, arg-type]


def test_what_was_remembered_is_found_out_without_a_diagnostic(tmp_path: Path) -> None:
    row = exhibit(
        SCENARIOS["contamination"], tmp_path, lambda line: None, diagnostic={"blocks": False}
    )
    assert row.ours.by == "the clean room", row.ours
    assert row.right
