"""The capture point of judging: whatever a verifier does with an answer, there is a verdict on it.

Training, evaluation, probes and servers judge through here. What a verifier raises on an answer, an
answer that is too long, time that runs out and a verdict that is none become the failure class
`judge_error` with a reason. An error of ours goes on only where the solution of the task cannot be
judged either: then it is the machine that failed, which is never held against an answer.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from coevolve.core.errors import CoevolveError
from coevolve.core.files import storable
from coevolve.core.overtime import Overtime, within
from coevolve.core.rollout import JUDGE_ERROR, Outcome
from coevolve.core.task import Task
from coevolve.domains.base import Domain, together

if TYPE_CHECKING:
    from coevolve.domains.turns import Episode

Result = TypeVar("Result")
MEANING = "the verifier raised an error, or took too long: nobody knows how good the answer is"
LONGEST = 1_000_000
"""Characters of an answer; longer ones are not judged."""
CPU_S, WALL_S = 60.0, 3_600.0
"""For one verdict, unless a domain says otherwise in `judge_cpu_s`: processor time of the thread
that judges, and time on the clock. Compiling and loading libraries are part of a first verdict."""
FOREIGN = ("CancelledError", "PanicException")
"""No Exceptions by their type, but nobody wants to end the run by them."""


class NoVerdict(Exception):
    """What a verifier gave is no verdict."""


def meaning(domain: Domain | None, failure: str | None) -> str:
    """What a failure class means, empty where nobody says."""
    if failure == JUDGE_ERROR:
        return MEANING
    return domain.failures.get(failure, "") if domain and failure else ""


def verify(domain: Domain, task: Task, text: str, tokens: int | None = None) -> Outcome:
    """The verdict on an answer: the domain's, or that there is none."""
    return judged(domain, task, text, tokens, lambda: domain.verify(task, text, tokens))


def verify_all(
    domain: Domain, tasks: Sequence[Task], texts: Sequence[str], tokens: Sequence[int | None]
) -> list[Outcome] | None:
    """The same for many answers of a domain that judges them together; None if it does not, or if
    they have to be judged one by one, since one of them spoils it."""
    at_once = together(domain)
    if at_once is None or max(map(len, texts), default=0) > LONGEST:
        return None
    limit = cpu_limit(domain) * (1 + len(texts) / 1_000)
    try:
        found = within(limit, WALL_S, lambda: at_once(tasks, texts, tokens))
        check(found)
    except BaseException as error:
        if ends_run(error):
            raise
        return None
    return found if len(found) == len(texts) else None


def draw(domain: Domain, task: Task, text: str) -> str:
    """A task with an answer, for a terminal; the answer alone where it cannot be drawn."""
    try:
        return limited(domain, text, lambda: domain.draw(task, text))
    except BaseException as error:
        if ends_run(error):
            raise
        return f"{text[:LONGEST]}\n\n(not drawn: {told(error)})"


class Captured:
    """An episode that always comes to a verdict; implements the `Episode` protocol."""

    def __init__(self, domain: Domain, task: Task, episode: "Episode") -> None:
        self.domain, self.task, self.episode = domain, task, episode
        self.broken: Outcome | None = None

    def reply(self, text: str) -> str | None:
        """What the environment says; where it breaks, the episode is over."""
        if self.broken:
            return None
        try:
            return limited(self.domain, text, lambda: self.episode.reply(text))
        except BaseException as error:
            self.broken = broken(self.domain, self.task, None, error)
            return None

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        if self.broken:
            return self.broken
        work = self.episode.outcome
        return judged(self.domain, self.task, text, tokens, lambda: work(text, tokens))


def judged(
    domain: Domain, task: Task, text: str, tokens: int | None, work: Callable[[], Outcome]
) -> Outcome:
    """The verdict that some work gives on an answer, or that it gives none."""
    try:
        found = limited(domain, text, work)
        check((found,))
    except BaseException as error:
        return broken(domain, task, tokens, error)
    return found


def limited(domain: Domain, text: str, work: Callable[[], Result]) -> Result:
    """What comes of some work on a text, within limits."""
    if len(text) > LONGEST:
        raise NoVerdict(f"an answer of {len(text)} characters; {LONGEST} are judged at most")
    return within(cpu_limit(domain), WALL_S, work)


def cpu_limit(domain: Domain) -> float:
    return float(getattr(domain, "judge_cpu_s", CPU_S))


def check(found: Iterable[Outcome]) -> None:
    """Refuse what is no verdict, or one of numbers that training cannot use."""
    for one in found:
        if not isinstance(one, Outcome):
            raise NoVerdict(f"the verifier gave a {type(one).__name__}, no outcome")
        if not math.isfinite(one.reward + sum(one.components.values())):
            raise NoVerdict("the reward is not a finite number")


def ends_run(error: BaseException) -> bool:
    """Whether somebody wants to end the run, which no capture may keep from happening."""
    return not isinstance(error, Exception | Overtime) and type(error).__name__ not in FOREIGN


def broken(domain: Domain, task: Task, tokens: int | None, error: BaseException) -> Outcome:
    """The verdict on an answer that the verifier broke on. It earns no more than an empty answer,
    so that breaking a verifier never pays."""
    if ends_run(error) or (isinstance(error, CoevolveError) and not works(domain, task)):
        raise error
    components, reward = dict.fromkeys(domain.components, 0.0), 0.0
    try:
        empty = limited(domain, "", lambda: domain.verify(task, "", tokens))
        check((empty,))
        if not empty.valid and empty.reward <= 0:
            components, reward = dict(empty.components), empty.reward
    except BaseException as other:
        if ends_run(other):
            raise
    return Outcome(
        valid=False,
        optimal=False,
        reward=reward,
        components=components,
        failure=JUDGE_ERROR,
        details={"reason": told(error)},
    )


def works(domain: Domain, task: Task) -> bool:
    """Whether the solution of a task can be judged, or an empty answer where nobody tells it."""
    try:
        solution = domain.oracle(task)
    except Exception:
        solution = ""
    try:
        limited(domain, solution, lambda: domain.verify(task, solution))
    except CoevolveError:
        return False
    except BaseException as error:
        if ends_run(error):
            raise
    return True


def told(error: BaseException) -> str:
    """An error in few words; even these may break, as those of a huge number do."""
    name = type(error).__name__
    if isinstance(error, Overtime):
        return "it took too long to judge"
    try:
        return storable(f"{name}: {error!s:.300}")
    except Exception:
        return name
