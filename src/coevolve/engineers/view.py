"""What engineers may see of a lineage, put together from its record."""

from collections.abc import Mapping

from coevolve.domains.base import Domain, Statistic
from coevolve.engineers.base import Acceptance, Past, Refused, Standing, View
from coevolve.engineers.notebook import notebooks
from coevolve.engineers.reach import widened
from coevolve.engineers.situation import ancestry
from coevolve.harness.budget import Spent
from coevolve.harness.patch import FACTORS, patched
from coevolve.store.cells import Cell
from coevolve.store.lineage import Lineage, Node
from coevolve.store.phases import Diagnose, Tried


def view_of(
    lineage: Lineage,
    domain: Domain,
    target: Mapping[str, Statistic],
    generation: int,
    found: Diagnose,
    note: str,
    spent: Spent | None = None,
) -> View:
    """For engineers that are to patch the parent that was diagnosed."""
    plan, harness = lineage.plan, lineage.harness(found.parent)
    space = domain.space.held(plan.hold, harness.knobs)
    seen = explored(lineage)
    bets = {(one.patch.factor, str(one.patch.value)): one.words for one in taken(lineage)}
    measured = {
        node.number: past_of(node, seen.get(node.number, ()), bet_of(node, bets))
        for node in lineage.nodes
    }
    return View(
        space,
        space.project(harness.knobs),
        tuple(measured[number] for number in line(lineage, found.parent)),
        {
            "round": generation - 1, "rounds": plan.versions, "steps": plan.recipe.steps,
            "recipe": harness.recipe.model_dump(),
            "reward": {"formula": harness.reward, **domain.components},
        },
        target,
        Acceptance(plan.objective, plan.accept, plan.backtest, plan.gate),
        note,
        reach=reach_of(lineage, found.parent),
        domain=domain.name,
        components=domain.components,
        meanings=domain.failures,
        parent=lineage.versions[found.parent or 0],
        versions=tuple(lineage.versions),
        refused=refused_before(lineage),
        measured=measured,
        findings=found.findings,
        factors=plan.factors,
        standing=standing(lineage, spent),
        notebooks=notebooks(lineage),
        failures=lineage.failures,
        switch=failed_layers(lineage),
    )  # fmt: skip


def reach_of(lineage: Lineage, parent: int | None) -> float:
    """How far engineers may move knobs that are to patch this parent."""
    node = next(iter(lineage.nodes[parent or 0 :]), None)
    train = node.train if node else None
    return widened(lineage.plan.reach, train.cells if train else ())


def standing(lineage: Lineage, spent: Spent | None) -> Standing | None:
    """Where the run stands. Of the gate it tells what was so before the first version, and no
    more."""
    plan = lineage.plan
    if lineage.base is None:
        return None
    return Standing(
        base=round(lineage.base.mean(plan.objective.metric), 2),
        noise=lineage.noise.spread if lineage.noise else 0.0,
        gate=plan.target.gate * plan.target.samples,
        goes_on=plan.start_from == "parent",
        temperature=plan.target.temperature,
        width=plan.width,
        left=plan.versions - lineage.counted,
        budget=plan.budget.left(spent or Spent()),
    )


def line(lineage: Lineage, parent: int | None) -> list[int]:
    """The versions from the first to the parent, and those that failed as patches of knobs, or with
    nothing changed, beside them: an engineer of knobs learns nothing from the others."""
    versions = lineage.versions
    way = set() if parent is None else set(ancestry(versions, parent))
    return [
        one.number
        for one in versions
        if one.number in way
        or (not one.valid and (one.patch is None or one.patch.factor == "knobs")
            and (one.parent is None or one.parent in way))
    ] or [0]  # fmt: skip


def explored(lineage: Lineage) -> dict[int, tuple[Cell, ...]]:
    """What was tried of kinds that are hardly trained on, by the version that tried it last."""
    found = (one.diagnose for one in lineage.generations if one.diagnose)
    return {one.parent or 0: one.explored for one in found if one.explored}


def taken(lineage: Lineage) -> list[Tried]:
    """Patches that passed a backtest."""
    found = (one.tests.tried for one in lineage.generations if one.tests)
    return [one for tried in found for one in tried if one.backtest and not one.refused]


def bet_of(node: Node, bets: Mapping[tuple[str, str], str]) -> str:
    """What its backtest said of a version's patch."""
    patch = node.version.patch
    return bets.get((patch.factor, str(patch.value)), "") if patch else ""


def past_of(node: Node, explored: tuple[Cell, ...] = (), bet: str = "") -> Past:
    """A version as engineers see it."""
    version, train, dev = node.version, node.train, node.dev
    assert train
    assert dev
    return Past(
        number=version.number,
        knobs=dict(version.harness.knobs),
        dev=dev.cells,
        train=train.cells,
        explored=explored,
        cases=dev.cases,
        engineer=version.author,
        explanation=version.patch.hypothesis if version.patch else "",
        bet=bet,
        verdict="kept" if version.valid else "reverted",
        why=why(node),
    )


def why(node: Node) -> str:
    """Why a version was kept or not, without a number of the gate's."""
    train, gate = node.train, node.gate
    if gate is None or node.version.verdict == "root":
        return ""
    if node.version.valid:
        sure = "better beyond noise" if gate.change.low > 0 else "no difference beyond noise"
        return f"{sure} on the tasks that decide"
    if train and train.result.stopped:
        return "its training was stopped"
    if gate.blocking:
        return f"not valid by {', '.join(alarm.diagnostic for alarm in gate.blocking)}"
    if gate.verdict == "pruned":
        return "no better than before, beyond noise"
    fell = [f"what is protected fell: {', '.join(gate.broken)}"] if gate.broken else []
    if gate.change.high < 0 or not fell:
        fell.insert(0, "worse on the tasks that decide")
    return "; ".join(fell)


def refused_before(lineage: Lineage) -> tuple[Refused, ...]:
    """Patches that a backtest has refused, with what they would have come to."""
    found = []
    for generation in lineage.generations:
        if not generation.tests or not generation.diagnose:
            continue
        for one in generation.tests.tried:
            if one.refused and one.backtest and not one.backtest.passed:
                own = generation.diagnose.parent if one.parent is None else one.parent
                before = lineage.harness(own)
                refused = Refused(
                    patch=one.patch, words=one.refused, harness=patched(before, one.patch),
                    before=before, asked=one.asked,
                )  # fmt: skip
                found.append(refused)
    return tuple(found)


def failed_layers(lineage: Lineage) -> tuple[str, ...]:
    """After three failures in a row: the layers of what failed, to switch away from."""
    failures = lineage.failures
    if failures < 3:
        return ()
    tried = [one.patch.factor for one in lineage.versions if one.patch and not one.valid]
    tried += [one.patch.factor for one in refused_before(lineage)]
    return tuple(dict.fromkeys(FACTORS[factor][0] for factor in reversed(tried[-failures:])))
