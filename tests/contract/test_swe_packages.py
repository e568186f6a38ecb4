"""Tasks from real packages of the registry, by name and version."""

from collections import Counter

import pytest

from coevolve.core.splits import Split
from coevolve.domains.swe.calls import write_call
from coevolve.domains.swe.domain import SweDomain
from coevolve.domains.swe.fetch import RegistryError, fetch
from coevolve.domains.swe.repository import repository
from coevolve.domains.swe.source import shipped
from coevolve.evaluation.attempts import attempts
from coevolve.policies.base import Sampling
from coevolve.policies.script import ScriptedPolicy


@pytest.fixture
def registry() -> None:
    """Skips where no package can be fetched."""
    first = shipped()[0]
    try:
        fetch(first.package, first.version, first.sha256)
    except RegistryError as error:
        pytest.skip(f"no registry: {error}")


@pytest.mark.usefixtures("registry")
def test_a_package_by_name() -> None:
    domain = SweDomain(["inflection==0.5.1"])
    assert len(repository("inflection==0.5.1").tests) > 400
    tasks = list(domain.generate(domain.space.defaults(), 3, 0, Split.TRAIN))
    for name, valid in (("oracle", True), ("lazy", False)):
        for rollout in attempts(domain, ScriptedPolicy(domain, name), tasks, Sampling()):
            assert rollout.outcome.valid is valid
            assert rollout.bucket["package"] == "inflection"


@pytest.mark.usefixtures("registry")
def test_packages_that_are_not_there_get_one_line() -> None:
    with pytest.raises(RegistryError, match=r"no sdist of inflection 99\.9; there is one of"):
        fetch("inflection", "99.9")
    with pytest.raises(RegistryError, match="no sdist of a package 'no-such-package-at-all'"):
        fetch("no-such-package-at-all", "1.0")


@pytest.mark.usefixtures("registry")
def test_another_hash_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(RegistryError, match="has the SHA-256"):
        fetch("inflection", "0.5.1", "0" * 64)


def test_twelve_packages_and_more_some_of_which_need_others() -> None:
    assert len({source.package for source in shipped()}) >= 12
    assert sum(bool(source.wheels) for source in shipped()) >= 2


@pytest.mark.slow
@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("name", [source.name for source in shipped()])
def test_every_package_has_tests_that_notice_faults(name: str) -> None:
    known = repository(name)
    assert len(known.tests) >= 50
    domain = SweDomain([name])
    task = next(domain.generate(domain.space.defaults(), 1, 0, Split.TRAIN))
    assert not domain.verify(task, write_call("submit")).valid
    assert domain.verify(task, domain.oracle(task)).valid


@pytest.mark.usefixtures("registry")
def test_a_package_that_needs_another() -> None:
    known = repository("jsonpatch==1.33")
    assert known.needs is not None
    assert (known.needs / "jsonpointer.py").is_file()
    assert len(known.tests) > 100


@pytest.mark.slow
@pytest.mark.usefixtures("registry")
def test_two_hundred_tasks_of_all_packages() -> None:
    domain = SweDomain()
    tasks = list(domain.generate(domain.space.defaults(), 300, 0, Split.TRAIN))
    faults = {(task.data["source"], str(task.data["faults"])) for task in tasks}
    assert len(faults) >= 200
    packages = Counter(task.bucket["package"] for task in tasks)
    assert packages.keys() == {source.package for source in shipped()}
    assert min(packages.values()) >= 5
    chosen = tasks[:: len(tasks) // 24]
    for rollout in attempts(domain, ScriptedPolicy(domain, "oracle"), chosen, Sampling()):
        assert rollout.outcome.valid, (rollout.task_id, rollout.outcome.details)
