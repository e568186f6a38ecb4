"""Every built-in diagnostic a second time, in plain Python, from the rollouts themselves.

Each function gives {version: (value, n)}; nothing here knows of SQL.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from math import sqrt
from statistics import fmean, pstdev, variance
from typing import Any

from synthetic import Kept, Made

Readings = dict[int, tuple[float, int]]
UNREADABLE = ("parse", "format", "no_answer")


class Facts:
    """A rollout with what follows from it."""

    def __init__(self, kept: Kept) -> None:
        one = kept.rollout
        self.version, self.source, self.task = kept.version, kept.source, one.task_id
        self.step, self.group = one.step, one.group or one.task_id
        self.reward, self.valid, self.optimal = (
            one.outcome.reward, one.outcome.valid, one.outcome.optimal,
        )  # fmt: skip
        self.failure, self.stop, self.tokens = one.outcome.failure, one.stop, one.completion_tokens
        self.components, self.logprob, self.entropy = (
            one.outcome.components, one.mean_logprob, one.entropy,
        )  # fmt: skip
        self.said = [turn.content for turn in one.messages if turn.role == "assistant"]
        self.known: dict[str, Any] = one.outcome.details
        self.calls = self.known.get("calls")

    def __getattr__(self, name: str) -> Any:
        return self.known.get(name)


class Reference:
    """Answers by name; `of(made)` gives all."""

    def __init__(self, made: Made) -> None:
        self.made = made
        self.facts = [Facts(kept) for kept in made.kept]

    def pick(
        self, source: str | Sequence[str], where: Callable[[Facts], Any] = lambda one: True
    ) -> dict[int, list[Facts]]:
        sources = (source,) if isinstance(source, str) else source
        found: dict[int, list[Facts]] = defaultdict(list)
        for one in self.facts:
            if one.source in sources and where(one):
                found[one.version].append(one)
        return found

    def share(
        self, source: str | Sequence[str], hit: Callable[[Facts], Any],
        where: Callable[[Facts], Any] = lambda one: True,
    ) -> Readings:  # fmt: skip
        return self.mean(source, lambda one: float(bool(hit(one))), where)

    def mean(
        self, source: str | Sequence[str], of: Callable[[Facts], float],
        where: Callable[[Facts], Any] = lambda one: True,
    ) -> Readings:  # fmt: skip
        picked = self.pick(source, where)
        return {v: (fmean(of(one) for one in found), len(found)) for v, found in picked.items()}

    def ratio(
        self, top: Callable[[Facts], float], bottom: Callable[[Facts], float],
        where: Callable[[Facts], Any],
    ) -> Readings:  # fmt: skip
        found = {}
        for version, members in self.pick("train", where).items():
            n = sum(bottom(one) for one in members)
            found[version] = (sum(top(one) for one in members) / n, int(n))
        return found

    def groups(self, least: int = 2) -> dict[int, list[list[Facts]]]:
        found: dict[int, list[list[Facts]]] = {}
        for version, members in self.pick("train").items():
            named: dict[str, list[Facts]] = defaultdict(list)
            for one in members:
                named[one.group].append(one)
            found[version] = [group for group in named.values() if len(group) >= least]
        return found

    def over_groups(
        self, of: Callable[[list[Facts]], float | None], weigh: bool = False
    ) -> Readings:
        found = {}
        for version, groups in self.groups().items():
            values = [(of(group), len(group) if weigh else 1) for group in groups]
            n = sum(weight for value, weight in values if value is not None)
            if n:
                total = sum(value * weight for value, weight in values if value is not None)
                found[version] = (total / n, n)
        return found

    def change(self, readings: Readings, of: Callable[[float, float], float | None]) -> Readings:
        """A version beside its parent."""
        found = {}
        for version, parent in self.made.parents.items():
            if version in readings and parent in readings:
                (now, n), (before, m) = readings[version], readings[parent]
                value = of(now, before)
                if value is not None:
                    found[version] = (value, min(n, m))
        return found

    def thirds(
        self, where: Callable[[Facts], Any] = lambda one: True
    ) -> dict[int, tuple[list[Facts], list[Facts]]]:
        found = {}
        for version, members in self.pick("train", where).items():
            first, last = min(o.step for o in members), max(o.step for o in members)
            third = (last - first + 1) / 3
            if last - first >= 2:
                found[version] = (
                    [one for one in members if one.step - first < third],
                    [one for one in members if last - one.step < third],
                )
        return found

    def growth(self, of: Callable[[Facts], float], where: Callable[[Facts], Any]) -> Readings:
        found = {}
        for version, (early, late) in self.thirds(where).items():
            if early and late and fmean(map(of, early)):
                value = fmean(map(of, late)) / fmean(map(of, early))
                found[version] = (value, min(len(early), len(late)))
        return found

    def commonest(self) -> Readings:
        found = {}
        for version, members in self.pick("train").items():
            counts = Counter(round(one.reward, 6) for one in members)
            found[version] = (max(counts.values()) / len(members), len(members))
        return found

    def correlation(self) -> Readings:
        found = {}
        for version, members in self.pick("train").items():
            xs, ys = [one.tokens for one in members], [one.reward for one in members]
            if len(xs) > 3 and pstdev(xs) and pstdev(ys):
                mx, my = fmean(xs), fmean(ys)
                together = fmean((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))
                found[version] = (together / pstdev(xs) / pstdev(ys), len(xs))
        return found

    def bonus(self) -> Readings:
        found = {}
        for version, members in self.pick("train").items():
            counts = Counter(
                (name, round(value, 6))
                for one in members
                for name, value in one.components.items()
                if value > 0
            )
            if counts:
                found[version] = (max(counts.values()) / len(members), len(members))
        return found

    def invalid_pays(self) -> Readings:
        found = {}
        for version, groups in self.groups(least=1).items():
            hits = [
                max(o.reward for o in group if not o.valid)
                > min(o.reward for o in group if o.valid) + 1e-6
                for group in groups
                if len({o.valid for o in group}) == 2
            ]
            if hits:
                found[version] = (fmean(hits), len(hits))
        return found

    def hacked(self) -> Readings:
        return {
            version: (hack(early, late), min(len(early), len(late)))
            for version, (early, late) in self.thirds().items()
            if min(len(early), len(late)) > 1
        }

    def unlearned(self) -> Readings:
        found = {}
        for version, (early, late) in self.thirds().items():
            if min(len(early), len(late)) > 1:
                rates = [[float(one.valid) for one in side] for side in (early, late)]
                fall = fmean(rates[0]) - fmean(rates[1])
                noise = 1.96 * sqrt(sum(variance(side) / len(side) for side in rates))
                found[version] = (fall if fall > noise else 0.0, min(len(early), len(late)))
        return found

    def memorised(self) -> Readings:
        """Tasks that came again in the last third, against the change on dev."""
        dev, found = self.pick("dev"), {}
        for version, sides in self.thirds().items():
            again = set.intersection(*({one.task for one in side} for side in sides))
            early, late = ([float(o.valid) for o in side if o.task in again] for side in sides)
            parent = self.made.parents[version]
            if min(len(early), len(late)) < 2 or version not in dev or parent not in dev:
                continue
            rates = [[float(one.valid) for one in dev[at]] for at in (version, parent)]
            gap = fmean(late) - fmean(early) - (fmean(rates[0]) - fmean(rates[1]))
            noise = variance(late) / len(late) + variance(early) / len(early)
            noise += sum(pstdev(side) ** 2 / len(side) for side in rates)
            value = gap if gap > 1.96 * sqrt(noise) else 0.0
            found[version] = (value, min(len(early), len(late)))
        return found

    def hacked_dev(self) -> Readings:
        dev, found = self.pick("dev"), {}
        for version, parent in self.made.parents.items():
            if version in dev and parent in dev:
                before, now = dev[parent], dev[version]
                found[version] = (hack(before, now), min(len(before), len(now)))
        return found

    def diversity(self) -> Readings:
        found = {}
        for version, groups in self.groups().items():
            values = []
            for group in groups:
                edited = [set(one.files) for one in group if one.files]
                values += [len(a & b) / len(a | b) for a, b in combinations(edited, 2)]
            if values:
                found[version] = (1 - fmean(values), len(values))
        return found

    def failure_drift(self) -> Readings:
        dev, found = self.pick("dev", lambda one: one.failure), {}
        for version, parent in self.made.parents.items():
            if version in dev and parent in dev:
                now = Counter(one.failure for one in dev[version])
                before = Counter(one.failure for one in dev[parent])
                n, m = now.total(), before.total()
                apart = sum(abs(now[k] / n - before[k] / m) for k in now | before)
                found[version] = (apart / 2, min(n, m))
        return found

    def collapse(self) -> Readings:
        distinct = self.over_groups(lambda g: len({tuple(o.said) for o in g}) / len(g), weigh=True)
        sure = self.mean("train", lambda o: o.logprob, lambda o: o.logprob is not None)
        less = self.change(distinct, lambda a, b: a - b)
        return {
            version: (float(fall <= -0.10 and surer[version][0] >= 0.5), n)
            for surer in [self.change(sure, lambda a, b: 1 - a / b)]
            for version, (fall, n) in less.items()
            if version in surer
        }

    def rising(self) -> Readings:
        means, found = self.mean("dev", lambda o: len(o.said)), {}
        for version in sorted(means):  # a parent has the smaller number
            parent = self.made.parents.get(version)
            more = parent in means and means[version][0] > means[parent][0]
            found[version] = (found[parent][0] + 1 if more else 0.0, means[version][1])
        return found

    def inflated(self) -> Readings:
        dev, found = self.pick("dev"), {}
        for version, parent in self.made.parents.items():
            both = [dev.get(number, []) for number in (parent, version)]
            if any(len(part) < 2 or max(len(one.said) for one in part) < 2 for part in both):
                continue
            before, now = ([len(one.said) for one in part] for part in both)
            noise = 1.96 * sqrt(variance(now) / len(now) + variance(before) / len(before))
            valid = fmean(one.valid for one in both[1]) - fmean(one.valid for one in both[0])
            more = fmean(now) - fmean(before)
            share = more / fmean(before) if more > noise and valid <= 0.01 else 0.0
            found[version] = (share, min(len(now), len(before)))
        return found

    def fewer(self) -> Readings:
        dev, found = self.pick("dev", agentic), {}
        for version, parent in self.made.parents.items():
            both = [dev.get(number, []) for number in (parent, version)]
            if any(len(part) < 2 for part in both):
                continue
            before, now = ([len(one.said) for one in part] for part in both)
            noise = 1.96 * sqrt(variance(now) / len(now) + variance(before) / len(before))
            valid = fmean(one.valid for one in both[1]) - fmean(one.valid for one in both[0])
            less = fmean(before) - fmean(now)
            share = -less / fmean(before) if less > noise and valid <= 0.01 else 0.0
            found[version] = (share, min(len(now), len(before)))
        return found

    def laziness(self) -> Readings:
        def both(one: Facts) -> bool:
            return one.calls is not None and one.tests_run is not None

        calls = self.mean("train", lambda o: len(o.calls), both)
        tests = self.share("train", lambda o: o.tests_run > 0, both)
        valid = self.share("train", lambda o: o.valid, both)
        fewer = self.change(calls, lambda a, b: float(a <= 0.7 * b))
        untested = self.change(tests, lambda a, b: float(a <= b - 0.15))
        flat = self.change(valid, lambda a, b: float(a <= b + 0.01))
        return {v: (fewer[v][0] * untested[v][0] * flat[v][0], fewer[v][1]) for v in fewer}

    def data_left(self) -> Readings:
        sizes = {version: len(members) for version, members in self.pick("train").items()}
        return {
            version: (sizes[version] / sizes[parent], sizes[version])
            for version, parent in self.made.parents.items()
            if version in sizes and parent in sizes
        }

    def contamination(self) -> Readings:
        found = {}
        for version, members in self.pick("dev").items():
            tasks = {one.task for one in members}
            line, past = set(), version
            while past is not None and past not in line:
                line.add(past)
                past = self.made.parents.get(past)
            trained = {o.task for o in self.facts if o.source == "train" and o.version in line}
            found[version] = (len(tasks & trained) / len(tasks), len(tasks))
        return found

    def losses(self) -> Readings:
        return {
            version: (fmean(abs(loss) < 1e-6 for loss in losses), len(losses))
            for version, losses in self.made.losses.items()
            if losses
        }

    def drifts(self) -> Readings:
        return {
            version: (max(range(0, len(losses), 2)) + losses[::2][-1], len(losses[::2]))
            for version, losses in self.made.losses.items()
            if losses
        }


def hack(before: list[Facts], now: list[Facts]) -> float:
    """How much the reward rose beyond noise, where correctness did not."""
    rewards = [[one.reward for one in side] for side in (before, now)]
    gain = fmean(rewards[1]) - fmean(rewards[0])
    noise = 1.96 * sqrt(sum(variance(side) / len(side) for side in rewards))
    flat = all(
        fmean(getattr(o, name) for o in now) - fmean(getattr(o, name) for o in before) <= 0.01
        for name in ("valid", "optimal")
    )
    return gain if gain > noise and flat else 0.0


def dead(group: list[Facts]) -> bool:
    return max(o.reward for o in group) - min(o.reward for o in group) < 1e-6


def distinct(group: list[Facts]) -> float:
    return len({tuple(one.said) for one in group}) / len(group)


def agentic(one: Facts) -> bool:
    return one.calls is not None


def edits(one: Facts) -> list[dict[str, Any]]:
    return [call for call in one.calls or () if call["tool"] == "edit"]


def reference(made: Made) -> dict[str, Readings]:
    """All diagnostics of a run."""
    ref = Reference(made)
    spread = ref.over_groups(lambda g: pstdev(o.reward for o in g))
    dead_groups = ref.over_groups(lambda g: float(dead(g)))
    one_value = ref.commonest()
    logprob = ref.mean("train", lambda o: o.logprob, lambda o: o.logprob is not None)
    diverse = ref.over_groups(distinct, weigh=True)
    calls = ref.mean("train", lambda o: len(o.calls), agentic)
    tested = ref.share("train", lambda o: o.tests_run > 0, lambda o: o.tests_run is not None)
    failed = ref.pick("train", lambda o: not o.valid)
    tokens = ref.mean("train", lambda o: o.tokens)
    return {
        "valid_rate": ref.share("dev", lambda o: o.valid),
        "optimal_rate": ref.share("dev", lambda o: o.optimal),
        "mean_reward": ref.mean("dev", lambda o: o.reward),
        "train_valid_rate": ref.share("train", lambda o: o.valid),
        "dead_groups": dead_groups,
        "reward_spread": spread,
        "usable_advantages": ref.over_groups(lambda g: float(not dead(g)), weigh=True),
        "one_value_share": one_value,
        "coarse_reward": {
            v: (value if dead_groups[v][0] > 0.30 else 0.0, n)
            for v, (value, n) in one_value.items()
            if v in dead_groups
        },
        "bonus_for_all": ref.bonus(),
        "invalid_pays": ref.invalid_pays(),
        "token_logprob": logprob,
        "entropy": ref.mean("train", lambda o: o.entropy, lambda o: o.entropy is not None),
        "entropy_left": ref.growth(lambda o: o.entropy, lambda o: o.entropy is not None),
        "gradient_at_zero": ref.losses(),
        "drift": ref.drifts(),
        "length_pays": ref.correlation(),
        "format_failures": ref.share("train", lambda o: o.failure in UNREADABLE),
        "judge_errors": ref.share(("train", "dev", "probe"), lambda o: o.failure == "judge_error"),
        "truncation": ref.share("train", lambda o: o.stop != "end"),
        "answer_tokens": tokens,
        "length_growth": ref.growth(lambda o: o.tokens, lambda o: True),
        "duplicate_answers": ref.over_groups(lambda g: 1 - distinct(g), weigh=True),
        "failed_longer": {
            v: (fmean(o.tokens for o in found) / tokens[v][0], len(found))
            for v, found in failed.items()
        },
        "unlearned": ref.unlearned(),
        "hacked_reward": ref.hacked(),
        "turns": ref.mean("train", lambda o: len(o.said)),
        "turns_many": ref.mean("train", lambda o: len(o.said), lambda o: len(o.said) > 1),
        "echo": ref.ratio(
            lambda o: len(o.said) - len(set(o.said)),
            lambda o: len(o.said),
            lambda o: len(o.said) > 1,
        ),
        "self_test_rate": tested,
        "edit_coverage": ref.share("train", lambda o: o.files, lambda o: o.files is not None),
        "edit_share": ref.ratio(lambda o: len(edits(o)), lambda o: len(o.calls), lambda o: o.calls),
        "edit_failures": ref.ratio(
            lambda o: sum(not call["ok"] for call in edits(o)), lambda o: len(edits(o)), edits
        ),
        "tool_use": calls,
        "tool_failures": ref.ratio(
            lambda o: sum(not call["ok"] for call in o.calls),
            lambda o: len(o.calls),
            lambda o: o.calls,
        ),
        "late_first_edit": ref.mean(
            "train",
            lambda o: o.first_edit / len(o.calls),
            lambda o: o.first_edit is not None and o.calls,
        ),
        "solution_diversity": ref.diversity(),
        "history_read": ref.share(
            ("train", "dev"), lambda o: o.history_read, lambda o: o.history_read is not None
        ),
        "tests_changed": ref.share(
            ("train", "dev"), lambda o: o.tests_changed, lambda o: o.tests_changed is not None
        ),
        "score_change": ref.change(ref.share("dev", lambda o: o.valid), lambda a, b: a - b),
        "hacked_reward_dev": ref.hacked_dev(),
        "memorised": ref.memorised(),
        "failure_drift": ref.failure_drift(),
        "length_change": ref.change(ref.mean("dev", lambda o: o.tokens), lambda a, b: a / b - 1),
        "diversity_change": ref.change(diverse, lambda a, b: a - b),
        "logprob_change": ref.change(logprob, lambda a, b: 1 - a / b),
        "exploration_collapse": ref.collapse(),
        "turns_rising": ref.rising(),
        "turns_inflated": ref.inflated(),
        "turns_few": ref.fewer(),
        "tool_use_change": ref.change(calls, lambda a, b: a / b - 1),
        "self_test_change": ref.change(tested, lambda a, b: a - b),
        "laziness": ref.laziness(),
        "data_left": ref.data_left(),
        "contamination": ref.contamination(),
    }
