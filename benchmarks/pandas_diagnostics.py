"""The built-in diagnostics with pandas: what one would write without a database.

Columns are read through pyarrow and text is flattened there, so that no row becomes an object where
it can be helped. `measure(folder)` gives {diagnostic: {version: [value, n]}}.
"""

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
from pyarrow import parquet

from coevolve.diagnostics.versions import versions_of

Readings = dict[int, list[float]]
SCALARS = ["task_id", "group", "step", "reward", "valid", "optimal", "failure", "stop",
           "completion_tokens", "mean_logprob", "entropy"]  # fmt: skip
MULTIPLIER = np.uint64(6364136223846793005)


def load(folder: Path, source: str, pattern: str) -> pd.DataFrame:
    """All rollouts of one source, with what follows from their text and details."""
    frames = []
    for place in sorted((folder / "versions").iterdir()):
        files = sorted(place.glob(pattern))
        table = pyarrow.concat_tables([parquet.read_table(file) for file in files])
        table = table.combine_chunks()
        frame = table.select(SCALARS).to_pandas()
        frame["version"] = int(place.name)
        read_text(frame, table["messages"].chunk(0))
        read_details(frame, table["details"].to_pylist())
        parts = table["components"].chunk(0)
        for name in ("accuracy", "bonus"):
            values = parts.items.to_numpy()[parts.keys.to_numpy(zero_copy_only=False) == name]
            frame[f"component {name}"] = values
        frames.append(frame)
    whole = pd.concat(frames, ignore_index=True)
    whole["source"] = source
    return whole


def read_text(frame: pd.DataFrame, messages: pyarrow.ListArray) -> None:
    """Turns of the policy, how many are distinct, and a number for all that was said."""
    lengths = np.diff(messages.offsets.to_numpy())
    owner = np.repeat(np.arange(len(frame)), lengths)
    flat = messages.flatten()
    mine = flat.field("role").to_numpy(zero_copy_only=False) == "assistant"
    owner = owner[mine]
    said = flat.field("content").filter(pyarrow.array(mine)).to_numpy(zero_copy_only=False)
    codes = pd.util.hash_array(said.astype(object))
    frame["turns"] = np.bincount(owner, minlength=len(frame))
    pairs = pd.DataFrame({"owner": owner, "code": codes}).drop_duplicates()
    frame["distinct_turns"] = np.bincount(pairs["owner"], minlength=len(frame))
    total = np.zeros(len(frame), np.uint64)
    starts = np.concatenate([[0], np.cumsum(frame["turns"].to_numpy())[:-1]])
    place = (np.arange(len(owner)) - starts[owner]).astype(np.uint64)
    np.add.at(total, owner, codes * (MULTIPLIER * (place * np.uint64(2) + np.uint64(1))))
    frame["answer"] = total


def read_details(frame: pd.DataFrame, texts: list[str]) -> None:
    """The keys that behaviour diagnostics read."""
    known = [json.loads(text) for text in texts]
    calls = [one.get("calls") for one in known]
    edits = [c and [x for x in c if x["tool"] == "edit"] for c in calls]
    frame["calls"] = [None if c is None else len(c) for c in calls]
    frame["failed_calls"] = [None if c is None else sum(not x["ok"] for x in c) for c in calls]
    frame["edits"] = [None if c is None else len(c) for c in edits]
    frame["failed_edits"] = [None if c is None else sum(not x["ok"] for x in c) for c in edits]
    frame["files"] = [None if (f := one.get("files")) is None else frozenset(f) for one in known]
    for name in ("tests_run", "tests_changed", "first_edit", "history_read"):
        frame[name] = [one.get(name) for one in known]


def mean(frame: pd.DataFrame, values: Any) -> Readings:
    found = pd.Series(np.asarray(values, float), index=frame.index).groupby(frame["version"])
    return pack(found.mean(), found.count())


def ratio(frame: pd.DataFrame, top: str, bottom: str) -> Readings:
    sums = frame.groupby("version")[[top, bottom]].sum()
    return pack(sums[top] / sums[bottom], sums[bottom])


def pack(values: pd.Series, n: pd.Series) -> Readings:
    found = {int(v): [float(values[v]), int(n[v])] for v in values.index}
    return {v: pair for v, pair in found.items() if np.isfinite(pair[0])}


class Measured:
    """All metrics of a run."""

    def __init__(self, folder: Path) -> None:
        self.parents = {row["version"]: row["parent"] for row in versions_of(folder)}
        self.folder = folder
        self.train = load(folder, "train", "stage/rollouts/*.parquet")
        self.dev = load(folder, "dev", "dev/*.parquet")
        by = self.train.groupby(["version", "group"])
        groups = by["reward"].agg(["size", "max", "min"])
        groups["spread"] = by["reward"].std(ddof=0)
        groups["dead"] = groups["max"] - groups["min"] < 1e-6
        groups["answers"] = by["answer"].nunique()
        self.groups = groups[groups["size"] > 1].reset_index()

    def change(self, readings: Readings, of: Any) -> Readings:
        found = {}
        for version, parent in self.parents.items():
            if version in readings and parent in readings:
                (now, n), (before, m) = readings[version], readings[parent]
                found[version] = [float(of(now, before)), min(n, m)]
        return found

    def thirds(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        low = frame.groupby("version")["step"].transform("min")
        high = frame.groupby("version")["step"].transform("max")
        third = (high - low + 1) / 3
        long = high - low >= 2
        return (
            frame[long & (frame["step"] - low < third)],
            frame[long & (high - frame["step"] < third)],
        )

    def growth(self, frame: pd.DataFrame, column: str) -> Readings:
        early, late = (part.groupby("version")[column] for part in self.thirds(frame))
        return pack(late.mean() / early.mean(), np.minimum(late.size(), early.size()))

    def commonest(self) -> Readings:
        counts = self.train.assign(earned=self.train["reward"].round(6))
        counts = counts.groupby(["version", "earned"]).size().groupby("version")
        return pack(counts.max() / counts.sum(), counts.sum())

    def bonus(self) -> Readings:
        n = self.train.groupby("version").size()
        most = pd.Series(0.0, index=n.index)
        for name in [c for c in self.train if c.startswith("component ")]:
            paid = self.train[self.train[name] > 0].assign(earned=self.train[name].round(6))
            counts = paid.groupby(["version", "earned"]).size().groupby("version").max()
            most = np.maximum(most, counts.reindex(n.index, fill_value=0))
        return pack(most / n, n)

    def invalid_pays(self) -> Readings:
        worse = self.train[~self.train["valid"]].groupby(["version", "group"])["reward"].max()
        better = self.train[self.train["valid"]].groupby(["version", "group"])["reward"].min()
        both = pd.concat([worse, better], axis=1, keys=["worse", "better"]).dropna().reset_index()
        return mean(both, both["worse"] > both["better"] + 1e-6)

    def hacked(self, early: pd.DataFrame, late: pd.DataFrame) -> list[float]:
        gain = late["reward"].mean() - early["reward"].mean()
        noise = 1.96 * np.sqrt(
            late["reward"].var() / len(late) + early["reward"].var() / len(early)
        )
        flat = all(late[c].mean() - early[c].mean() <= 0.01 for c in ("valid", "optimal"))
        return [float(gain) if gain > noise and flat else 0.0, min(len(early), len(late))]

    def hacked_train(self) -> Readings:
        early, late = (dict(list(part.groupby("version"))) for part in self.thirds(self.train))
        return {v: self.hacked(early[v], late[v]) for v in early}

    def unlearned(self) -> Readings:
        early, late = (dict(list(part.groupby("version"))) for part in self.thirds(self.train))
        found = {}
        for version, one in early.items():
            sides = one["valid"].astype(float), late[version]["valid"].astype(float)
            fall = sides[0].mean() - sides[1].mean()
            noise = 1.96 * np.sqrt(sum(side.var() / len(side) for side in sides))
            found[version] = [float(fall) if fall > noise else 0.0, min(map(len, sides))]
        return found

    def memorised(self) -> Readings:
        thirds = (dict(list(part.groupby("version"))) for part in self.thirds(self.train))
        (early, late), dev, found = thirds, dict(list(self.dev.groupby("version"))), {}
        for version, parent in self.parents.items():
            if version not in early or version not in dev or parent not in dev:
                continue
            again = set(early[version]["task_id"]) & set(late[version]["task_id"])
            sides = [
                one[version].loc[one[version]["task_id"].isin(again), "valid"].astype(float)
                for one in (late, early)
            ]
            if min(map(len, sides)) < 2:
                continue
            rates = [dev[at]["valid"].astype(float) for at in (version, parent)]
            gap = sides[0].mean() - sides[1].mean() - (rates[0].mean() - rates[1].mean())
            noise = sum(side.var() / len(side) for side in sides)
            noise += sum(rate.var(ddof=0) / len(rate) for rate in rates)
            value = float(gap) if gap > 1.96 * np.sqrt(noise) else 0.0
            found[version] = [value, min(map(len, sides))]
        return found

    def hacked_dev(self) -> Readings:
        dev = dict(list(self.dev.groupby("version")))
        pairs = self.parents.items()
        return {v: self.hacked(dev[p], dev[v]) for v, p in pairs if v in dev and p in dev}

    def diversity(self) -> Readings:
        edited = self.train[self.train["files"].map(lambda f: bool(f))]
        sums: dict[int, list[float]] = {}
        for (version, _), sets in edited.groupby(["version", "group"])["files"]:
            total = sums.setdefault(version, [0.0, 0])
            for a, b in combinations(sets, 2):
                total[0] += len(a & b) / len(a | b)
                total[1] += 1
        return {v: [1 - alike / n, n] for v, (alike, n) in sums.items() if n}

    def failure_drift(self) -> Readings:
        counts = {v: Counter(part.dropna()) for v, part in self.dev.groupby("version")["failure"]}
        found = {}
        for version, parent in self.parents.items():
            if parent in counts and version in counts:
                now, before = counts[version], counts[parent]
                n, m = now.total(), before.total()
                apart = sum(abs(now[k] / n - before[k] / m) for k in now | before)
                found[version] = [apart / 2, min(n, m)]
        return found

    def rising(self) -> Readings:
        if self.dev["turns"].max() <= 1:
            return {}
        means = mean(self.dev, self.dev["turns"])
        found: Readings = {}
        for version, (value, n) in sorted(means.items()):  # a parent has the smaller number
            parent = self.parents.get(version)
            rose = parent is not None and parent in means and value > means[parent][0]
            found[version] = [found[parent][0] + 1 if parent is not None and rose else 0.0, n]
        return found

    def inflated(self) -> Readings:
        several = {
            v: part
            for v, part in self.dev.groupby("version")
            if len(part) > 1 and part["turns"].max() > 1
        }
        return self.turned(several, 1)

    def fewer(self) -> Readings:
        tools = self.dev[self.dev["calls"].notna()].groupby("version")
        return self.turned({v: part for v, part in tools if len(part) > 1}, -1)

    def turned(self, parts: "dict[int, pd.DataFrame]", sign: int) -> Readings:
        """More turns than the parent takes, or fewer, without being more correct."""
        found = {}
        for version, parent in self.parents.items():
            if parent in parts and version in parts:
                before, now = parts[parent], parts[version]
                spread = [part["turns"].var() / len(part) for part in (before, now)]
                more = now["turns"].mean() - before["turns"].mean()
                valid = now["valid"].mean() - before["valid"].mean()
                paid = sign * more > 1.96 * np.sqrt(sum(spread)) and valid <= 0.01
                share = more / before["turns"].mean() if paid else 0.0
                found[version] = [share, min(len(before), len(now))]
        return found

    def contamination(self) -> Readings:
        trained = self.train.groupby("version")["task_id"].agg(set)
        seen: dict[int | None, set[str]] = {None: set()}
        for version, parent in sorted(self.parents.items()):
            seen[version] = seen.get(parent, set()) | trained.get(version, set())
        tasks = self.dev[["version", "task_id"]].drop_duplicates()
        known = [
            task in seen[v] for v, task in zip(tasks["version"], tasks["task_id"], strict=True)
        ]
        return mean(tasks, pd.Series(known, index=tasks.index))

    def losses(self) -> Readings:
        found = {}
        for place in sorted((self.folder / "versions").iterdir()):
            frame = pd.read_json(place / "stage" / "steps.jsonl", lines=True)
            found[int(place.name)] = [float((frame["grad_norm"] < 1e-6).mean()), len(frame)]
        return found

    def drifts(self) -> Readings:
        found = {}
        for place in sorted((self.folder / "versions").iterdir()):
            frame = pd.read_json(place / "stage" / "steps.jsonl", lines=True)
            known = frame[frame["drift"].notna()] if "drift" in frame else frame[:0]
            if len(known):
                found[int(place.name)] = [float(known.iloc[-1]["drift"]), len(known)]
        return found

    def all(self) -> dict[str, Readings]:
        train, dev, groups = self.train, self.dev, self.groups
        tools = train[train["calls"].notna()]
        called, edited = tools[tools["calls"] > 0], tools[tools["edits"] > 0]
        tested, filed = train[train["tests_run"].notna()], train[train["files"].notna()]
        sure, open_ = train[train["mean_logprob"].notna()], train[train["entropy"].notna()]
        several = train[train["turns"] > 1].assign(same=train["turns"] - train["distinct_turns"])
        both = pd.concat([train, dev])
        read, changed = both[both["history_read"].notna()], both[both["tests_changed"].notna()]
        late = called[called["first_edit"].notna()]
        groups = groups.assign(
            live=np.where(groups["dead"], 0, groups["size"]),
            same=groups["size"] - groups["answers"],
        )
        dead, one_value = mean(groups, groups["dead"]), self.commonest()
        logprob, calls = mean(sure, sure["mean_logprob"]), mean(tools, tools["calls"])
        tests, answers = mean(tested, tested["tests_run"] > 0), ratio(groups, "answers", "size")
        by = train.groupby("version")
        tokens, failed = by["completion_tokens"].mean(), train[~train["valid"]].groupby("version")
        surer = self.change(logprob, lambda a, b: 1 - a / b)
        less = self.change(answers, lambda a, b: a - b)
        work = tools[tools["tests_run"].notna()]
        flags = [
            self.change(mean(work, work["calls"]), lambda a, b: a <= 0.7 * b),
            self.change(mean(work, work["tests_run"] > 0), lambda a, b: a <= b - 0.15),
            self.change(mean(work, work["valid"]), lambda a, b: a <= b + 0.01),
        ]
        sizes = by.size()
        return {
            "valid_rate": mean(dev, dev["valid"]),
            "optimal_rate": mean(dev, dev["optimal"]),
            "mean_reward": mean(dev, dev["reward"]),
            "train_valid_rate": mean(train, train["valid"]),
            "dead_groups": dead,
            "reward_spread": mean(groups, groups["spread"]),
            "usable_advantages": ratio(groups, "live", "size"),
            "one_value_share": one_value,
            "coarse_reward": {
                v: [x if dead[v][0] > 0.30 else 0.0, n] for v, (x, n) in one_value.items()
            },
            "bonus_for_all": self.bonus(),
            "invalid_pays": self.invalid_pays(),
            "token_logprob": logprob,
            "entropy": mean(open_, open_["entropy"]),
            "entropy_left": self.growth(open_, "entropy"),
            "gradient_at_zero": self.losses(),
            "drift": self.drifts(),
            "length_pays": pack(
                by[["completion_tokens", "reward"]].apply(lambda f: f.corr().iloc[0, 1]), sizes
            ),
            "format_failures": mean(train, train["failure"].isin(("parse", "format", "no_answer"))),
            "judge_errors": mean(both, both["failure"] == "judge_error"),
            "truncation": mean(train, train["stop"] != "end"),
            "answer_tokens": mean(train, train["completion_tokens"]),
            "length_growth": self.growth(train, "completion_tokens"),
            "duplicate_answers": ratio(groups, "same", "size"),
            "failed_longer": pack(failed["completion_tokens"].mean() / tokens, failed.size()),
            "unlearned": self.unlearned(),
            "hacked_reward": self.hacked_train(),
            "turns": mean(train, train["turns"]),
            "turns_many": mean(several, several["turns"]),
            "echo": ratio(several, "same", "turns"),
            "self_test_rate": tests,
            "edit_coverage": mean(filed, filed["files"].map(len) > 0),
            "edit_share": ratio(called, "edits", "calls"),
            "edit_failures": ratio(edited, "failed_edits", "edits"),
            "tool_use": calls,
            "tool_failures": ratio(called, "failed_calls", "calls"),
            "late_first_edit": mean(late, late["first_edit"].astype(float) / late["calls"]),
            "solution_diversity": self.diversity(),
            "history_read": mean(read, read["history_read"].astype(bool)),
            "tests_changed": mean(changed, changed["tests_changed"].astype(bool)),
            "score_change": self.change(mean(dev, dev["valid"]), lambda a, b: a - b),
            "hacked_reward_dev": self.hacked_dev(),
            "memorised": self.memorised(),
            "failure_drift": self.failure_drift(),
            "length_change": self.change(
                mean(dev, dev["completion_tokens"]), lambda a, b: a / b - 1
            ),
            "diversity_change": less,
            "logprob_change": surer,
            "exploration_collapse": {
                v: [float(fall <= -0.10 and surer[v][0] >= 0.5), n] for v, (fall, n) in less.items()
            },
            "turns_rising": self.rising(),
            "turns_inflated": self.inflated(),
            "turns_few": self.fewer(),
            "tool_use_change": self.change(calls, lambda a, b: a / b - 1),
            "self_test_change": self.change(tests, lambda a, b: a - b),
            "laziness": {v: [float(all(f[v][0] for f in flags)), flags[0][v][1]] for v in flags[0]},
            "data_left": {
                v: [sizes[v] / sizes[p], int(sizes[v])]
                for v, p in self.parents.items()
                if p in sizes
            },
            "contamination": self.contamination(),
        }


def measure(folder: Path) -> dict[str, Readings]:
    return Measured(folder).all()
