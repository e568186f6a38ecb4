"""Putting a run together, from a plan or from the folder of one that was begun."""

from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.backtests.reward import check_names
from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.domains.base import Domain
from coevolve.domains.files import SUITE
from coevolve.domains.registry import get_domain
from coevolve.engineering import table
from coevolve.engineering.engineer import TaughtEngineer
from coevolve.engineers.agent import AgentEngineer
from coevolve.engineers.base import Engineer
from coevolve.engineers.context import VARIANTS, modules_of
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.model import THINK, ModelEngineer
from coevolve.engineers.registry import known_engineers, make_engineer
from coevolve.engineers.rules import RulesEngineer
from coevolve.engineers.search import GridSearch, RandomSearch
from coevolve.engines.base import Engine, Observe
from coevolve.engines.registry import get_engine
from coevolve.evaluation.target import keep_tasks
from coevolve.harness.plan import SMALL, Plan
from coevolve.loop.foresee import foresee
from coevolve.loop.run import Run, Say, Team, decided, quiet
from coevolve.loop.small import named_small, with_small
from coevolve.loop.train import one_by_one
from coevolve.policies.base import Policy
from coevolve.policies.endpoint import EndpointPolicy
from coevolve.policies.gguf import GgufPolicy
from coevolve.policies.models import anywhere
from coevolve.policies.registry import ADDRESS, check_policy
from coevolve.policies.vllm import program
from coevolve.store.files import need_locks
from coevolve.store.gauge import Gauge, gauge_of
from coevolve.store.jobs import Work
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import plan_of
from coevolve.store.paths import Paths

SEARCHES = {one.name: one for one in (RandomSearch, GridSearch)}
MODELS = ("policy", "base")
"""Engineers that are the trainee itself: the current checkpoint, and the untrained one."""

REACHED_S = 20.0
"""In which a server has to answer anything at all."""

Refuse = Callable[[str, Collection[str]], None]
"""As an engine's `check`: takes a policy and a domain's scripts."""


class Own(NamedTuple):
    """Parts of a run that its user brings, in the place of those that a plan names."""

    engineers: Sequence[Engineer] = ()
    domain: Domain | None = None

    def check(self) -> None:
        """Refuse what is no engineer or domain, before anything is recorded."""
        if isinstance(self.domain, str):
            raise UserError(
                f"domain = {self.domain!r}: give an object; the name of a known domain stands in a "
                f"plan: coevolve.Plan(domain={self.domain!r})"
            )
        for one in self.engineers:
            if not isinstance(getattr(one, "name", None), str) or not hasattr(one, "propose"):
                raise UserError(
                    f"engineers = [{one!r:.60}]: give objects with a `name` and a method "
                    "`propose(view, seed)`; names of known engineers stand in a plan: "
                    'coevolve.Plan(engineers=["aim"])'
                )

    def named(self, plan: Plan) -> Plan:
        """The plan with the names of these parts in it."""
        self.check()
        changes: dict[str, Any] = {}
        if self.engineers:
            changes["engineers"] = tuple(one.name for one in self.engineers)
        if self.domain:
            changes["domain"] = self.domain.name
        if self.domain and (plan.processes > 1 or plan.cluster.workers):
            setting = "cluster.workers" if plan.cluster.workers else "processes"
            raise UserError(
                f"{setting} = {plan.all_processes}: other processes do not know a domain that is "
                "given as an object; leave it out, or make the domain a package (coevolve "
                "new-domain)"
            )
        return plan.model_copy(update=changes)

    def engine(self, plan: Plan) -> Engine:
        if self.domain and plan.engine == "trl":
            from coevolve.engines.trl.engine import TrlEngine

            return TrlEngine({self.domain.name: self.domain})
        return get_engine(plan.engine)


class More(NamedTuple):
    """How far a run is to go beyond its plan."""

    versions: int | None = None
    steps: int | None = None
    """Of versions that are not trained yet."""

    def than(self, plan: Plan, folder: Path) -> dict[str, Any]:
        """What changes of a plan."""
        if self.versions is not None and self.versions < plan.versions:
            raise UserError(
                f"versions = {self.versions}: {folder} is planned with {plan.versions} already, "
                "and what is trained stays; give a larger number"
            )
        changes: dict[str, Any] = {}
        if self.versions not in (None, plan.versions):
            changes["versions"] = self.versions
        if self.steps not in (None, plan.recipe.steps):
            changes["recipe"] = {"steps": self.steps}
        return changes


AS_PLANNED = More()
PLANNED = Own()
"""Nothing but what the plan names."""


def create(
    plan: Plan,
    folder: Path,
    observe: Observe | None = None,
    say: Say = quiet,
    engine: Engine | None = None,
    work: Work | None = None,
    own: Own = PLANNED,
    here: bool = True,
) -> Run:
    """A new run in `folder`, or the same one again; `work` trains its versions, if given, on this
    machine unless it is not `here`."""
    need_locks()
    # Late: a slip in the plan is told without what an engine imports.
    engine_of = cache(lambda: engine or own.engine(plan))
    domain = check(plan, lambda policy, scripts: engine_of().check(policy, scripts), own)
    engine, folder = engine_of(), folder.resolve()
    begun = (folder / "ledger.db").exists()
    if begun and plan.policy == SMALL:  # another run's folder is told before one is taught
        named = named_small(plan, domain, folder.parent)
        Ledger.create(folder, recorded(named, domain, folder)).close()
    if not begun and not own.engineers:
        reach(plan.engineers)
    plan = with_small(plan, domain, folder.parent, engine, observe, say)
    if not begun:
        foresee(decided(plan), domain, engine, folder, say, here=here)
    ledger = Ledger.create(folder, recorded(plan, domain, folder))
    return assembled(plan_of(ledger), ledger, engine, observe, say, work, own)


def recorded(plan: Plan, domain: Domain, folder: Path) -> dict[str, Any]:
    """The plan as the run's record has it: nothing left open, all names found from anywhere."""
    target = keep_tasks(plan.target, folder)
    named = target.model_copy(update={"tasks": Paths(folder).name(target.tasks)})
    whole = found_anywhere(decided(plan), domain).model_copy(update={"target": named})
    return whole.model_dump(mode="json")


def reopen(
    folder: Path,
    observe: Observe | None = None,
    say: Say = quiet,
    engine: Engine | None = None,
    work: Work | None = None,
    more: More = AS_PLANNED,
    own: Own = PLANNED,
) -> Run:
    """A run that was begun, extended where more is asked for."""
    own.check()
    ledger = Ledger.open(folder.resolve())  # what it records holds in any working directory
    plan = plan_of(ledger)
    for name in strangers(plan.engineers) if not own.engineers else ():
        raise UserError(
            f"'{name}' is no engineer that is known here. If {folder} was begun from Python with "
            f"an engineer of that name, resume it there: {in_python(folder)}; if it comes with a "
            "package, install that"
        )
    changes = more.than(plan, folder)
    going_on = bool(changes) or ledger.state() != "done"
    if going_on and not own.engineers and len(plan.engineers) == 1:
        reach(plan.engineers)  # of several the others go on
    if changes:
        gauge_of(plan, Paths(ledger.folder), own.domain)  # refuses what changes nothing then
        ledger.note("extended", **changes)
        plan = plan_of(ledger)
    return assembled(plan, ledger, engine or own.engine(plan), observe, say, work, own)


def assembled(
    plan: Plan,
    ledger: Ledger,
    engine: Engine,
    observe: Observe | None,
    say: Say,
    work: Work | None,
    own: Own,
) -> Run:
    """The parts of a run, put together."""
    paths = Paths(ledger.folder)
    gauge = gauge_of(plan, paths, own.domain)
    work = work or one_by_one(engine, gauge, observe)
    return Run(plan, ledger, gauge, team_of(plan, gauge, paths, own), work, say)


def found_anywhere(plan: Plan, domain: Domain) -> Plan:
    """The same plan with models, data and folders that are found from any working directory."""
    # A folder `policy` that lies about is no engineer.
    engineers = tuple(anywhere(name) if "/" in name else name for name in plan.engineers)
    changes = {"policy": anywhere(plan.policy), "engineers": engineers, "domain": domain.name}
    skills = {"skills": plan.skills.resolve()} if plan.skills else {}
    return plan.model_copy(update={**changes, **skills})


def check(plan: Plan, refuse: Refuse, own: Own = PLANNED) -> Domain:
    """Refuse what no run can go by, before a folder is begun that could not be begun again."""
    domain = own.domain or get_domain(plan.domain)
    if plan.style:
        lookup("prompt style", plan.style, {name: name for name in domain.styles})
    domain.space.parse(plan.target.knobs)
    if plan.target.tasks.startswith(SUITE):
        lookup("suite", plan.target.tasks.removeprefix(SUITE), domain.suites)
    domain.space.held(plan.hold, domain.space.parse(plan.knobs))
    check_names(plan.reward, domain)
    plan.recipe.check(plan.all_processes)
    if plan.generator == "vllm":
        program()
    if plan.budget.money is not None and not any(plan.prices):
        raise UserError(
            f"budget.money = {plan.budget.money:g}, but prices = [0, 0]: nothing costs anything; "
            "give the money per million tokens read and written"
        )
    for name in plan.engineers if not own.engineers else ():
        if not is_model(name):
            # Those that only try what a bad engineer does are known, but not offered.
            offered = [one for one in known_names() if one == name or not one.startswith("bad-")]
            lookup("engineer", name, dict.fromkeys(offered))
        elif name not in MODELS:
            check_policy(name, domain)
    modules_of(plan.context)
    if plan.policy != SMALL:
        refuse(plan.policy, domain.scripts)
    return domain


def reach(engineers: Sequence[str]) -> None:
    """An error where nothing answers at the address of an engineer, who would be asked only after
    the first training."""
    for name in engineers:
        if name.startswith(ADDRESS):
            address, _, model = name.partition("#")
            with closing(EndpointPolicy(address, model, timeout_s=REACHED_S)) as policy:
                policy.reach()


def known_names() -> tuple[str, ...]:
    """Of engineers that a plan may name."""
    return (*MODELS, "smollm2", RulesEngineer.name, *SEARCHES, *known_engineers())


def strangers(names: Sequence[str]) -> list[str]:
    """Those engineers of a recorded plan that a command cannot make."""
    known = known_names()
    return [name for name in names if not is_model(name) and name not in known]


def in_python(folder: Path) -> str:
    """What goes on with a run whose engineers are somebody's own."""
    return f"coevolve.resume({str(folder)!r}, engineers=[...])"


def is_model(name: str) -> bool:
    return name in (*MODELS, "smollm2") or "/" in name


def team_of(plan: Plan, gauge: Gauge, paths: Paths, own: Own = PLANNED) -> Team:
    """How to make the engineers of a checkpoint."""
    if own.engineers:
        return lambda checkpoint: {one.name: partial(given, one) for one in own.engineers}

    def one(name: str, checkpoint: str) -> Engineer:
        library = SkillLibrary(paths.skills)
        if name == RulesEngineer.name:
            return RulesEngineer(library)
        if name in SEARCHES:
            return SEARCHES[name]()
        if not is_model(name):
            return make_engineer(name)
        source = {"policy": checkpoint, "base": plan.policy}.get(name, name)
        return model_engineer(name, gauge.load(source)[0], plan, library)

    return lambda checkpoint: {name: partial(one, name, checkpoint) for name in plan.engineers}


def given(engineer: Engineer) -> Engineer:
    return engineer


def model_engineer(name: str, policy: Policy, plan: Plan, library: SkillLibrary) -> Engineer:
    """A model as an engineer: with tools; for knobs alone as it was taught, or in plain words."""
    from coevolve.policies.local import LocalPolicy  # torch: seconds, which rules can do without

    # Others think on their own: what is held to a form here is so from its first token on.
    think = THINK if isinstance(policy, LocalPolicy | GgufPolicy) else 0
    if not plan.only_knobs:
        if isinstance(policy, GgufPolicy):
            policy.remember()
        return AgentEngineer(name, policy, library, plan.agent, think=think)
    style = policy.loaded.style("engineering") if isinstance(policy, LocalPolicy) else ""
    if style == "table":
        return TaughtEngineer(name, policy)
    if style in VARIANTS:
        return ModelEngineer(name, policy, plan.context, "whole", taught=table.form)
    return ModelEngineer(name, policy, plan.context, plan.answer, think=think)
