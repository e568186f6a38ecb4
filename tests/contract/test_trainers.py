"""What every trainer promises, asked of the rules, of engineers of knobs, and of models."""

import json

import pytest
from lineages import SUITE, child, lineage, patch, root
from test_policies import model_file

from coevolve.core.errors import EvidenceError
from coevolve.domains.registry import get_domain
from coevolve.engineers.knob_trainer import KnobTrainer
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.model_trainer import ModelTrainer
from coevolve.engineers.registry import ENGINEERS, make_engineer
from coevolve.engineers.rules import RulesTrainer
from coevolve.harness.patch import Patch, patched
from coevolve.policies.base import Completion, Sampling

LIBRARY = SkillLibrary()
PROPOSAL = {
    "tool": "propose",
    "patch": {"factor": "recipe.clip_low", "value": 0.25, "hypothesis": "if so, then better"},
}


class Says:
    """A policy that always says the same."""

    name = "says"

    def __init__(self, text):
        self.text = text

    def answer(self, prompts, sampling):
        return [Completion(self.text)]


MAKERS = {
    "rules": lambda: RulesTrainer(LIBRARY),
    "model": lambda: ModelTrainer("model", Says(json.dumps(PROPOSAL)), LIBRARY, calls=2),
    "mad model": lambda: ModelTrainer("mad", Says("{'tool': 1}"), LIBRARY, calls=2),
    **{
        f"knobs by {name}": lambda name=name: KnobTrainer(make_engineer(name))
        for name in (*ENGINEERS, "bad-hardest", "bad-nan")
    },
}


def grown(verdict):
    """A start, one kept version and two that failed or were rejected."""
    a = root()
    b = child(1, a, patch("recipe.group", 16), "kept")
    c = child(2, b, patch("knobs", {"size3.hole_ratio": 0.3}), verdict)
    d = child(3, b, patch("reward", "accuracy"), "rejected")
    return {"versions": [a, b, c, d], "parent": b}


EXTREMES = (-1e9, -1.0, 0.0, 1e-9, 0.5, 1.0, 1e9)
LINEAGES = {
    "nothing known": lambda: lineage(),
    "nothing measured": lambda: lineage(measured={}),
    "grown, pruned": lambda: lineage(**grown("pruned")),
    "grown, reverted": lambda: lineage(**grown("reverted"), note="revise\n``` {x}"),
    "all layers failed": lambda: lineage(
        switch=("environment", "reward", "data", "sampling", "optimiser")
    ),
    "filters and a long reward": lambda: lineage(
        dict.fromkeys(SUITE, 1.0),
        versions=[
            root(
                reward=" + ".join(["accuracy"] * 25),
                filters=[{"kind": "spread"}, {"kind": "truncation"}],
                knobs={"size3.hole_ratio": 0.2},
            )
        ],
    ),
    "unknown knobs": lambda: lineage(versions=[root(knobs={"gone": 3.0})]),
    **{
        f"every reading {value:g} in {domain}": lambda value=value, domain=domain: lineage(
            dict.fromkeys(SUITE, value), domain=get_domain(domain)
        )
        for value, domain in zip(EXTREMES, ("lake", "math", "code", "swe") * 2, strict=False)
    },
}


@pytest.mark.parametrize("known", LINEAGES)
@pytest.mark.parametrize("maker", MAKERS)
def test_suggestions_apply_or_say_why_not(maker, known):
    trainer, given = MAKERS[maker](), LINEAGES[known]()
    before = [one.model_dump_json() for one in given.versions]
    found = trainer.propose(given, 5)
    assert found, "a trainer that has nothing to say says so"
    assert [one.model_dump_json() for one in given.versions] == before
    for one in found:
        json.dumps(one.model_dump(mode="json"), allow_nan=False).encode()
        assert bool(one.failure) != bool(one.patch)
        if one.patch:
            patched(given.parent.harness, Patch.model_validate(one.patch))
    assert trainer.propose(given, 5) == found, "the same for the same lineage and seed"


# --- real evidence, and a real model


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A lineage over a run with rollouts in files, asked through the locked connection."""
    pytest.importorskip("duckdb", reason="diagnostics need the extra `train`")
    from synthetic import make_run

    from coevolve.evidence.health import Diagnosis

    made = make_run(tmp_path_factory.mktemp("runs") / "run", 1)
    with Diagnosis(made.folder) as diagnosis:
        findings = tuple(diagnosis.health().findings)
        yield lineage(**grown("pruned"), findings=findings, ask=diagnosis.locked.ask)


def test_tools_reach_real_rollouts_and_nothing_else(real):
    calls = [
        {
            "tool": "query",
            "sql": "SELECT source, count(*) AS n FROM rollouts GROUP BY 1 ORDER BY 1",
        },
        {"tool": "query", "sql": "COPY rollouts TO 'stolen.csv'"},
        {"tool": "query", "sql": "SELECT * FROM read_text('/etc/passwd')"},
        {"tool": "rollouts", "name": "truncation"},
        {"tool": "rollouts", "name": "x' OR '1' = '1"},
        {"tool": "lineage", "version": 1},
        PROPOSAL,
    ]

    class Script(Says):
        def answer(self, prompts, sampling):
            turn = sum(message.role == "assistant" for message in prompts[0].messages)
            return [Completion(json.dumps(calls[turn]))]

    (found,) = ModelTrainer("model", Script(""), LIBRARY).propose(real, 0)
    answers = [call["answer"] for call in found.calls]
    assert "dev | " in answers[0]
    assert "gate" not in answers[0]
    assert "refused" in answers[1]
    assert "refused" in answers[2]
    assert "assistant:" in answers[3]
    assert "no diagnostic and no id" in answers[4]
    assert '"dead_groups"' in answers[5]
    assert found.patch["factor"] == "recipe.clip_low"
    with pytest.raises(EvidenceError):
        real.ask("SELECT * FROM gate")


def test_rules_follow_real_readings(real):
    found = RulesTrainer(LIBRARY).propose(real, 0)
    names = [one.skill for one in found]
    followed = [name for name in names if LIBRARY.get(name).trigger]
    assert followed, "random rollouts of tools raise alarms"
    assert names == [*followed, *(name for name in names if name not in followed)]


@pytest.mark.slow
def test_a_small_model_behind_a_server_is_asked_to_its_end(real):
    from coevolve.policies.gguf import GgufPolicy

    policy = GgufPolicy(model_file(), context=4_096, threads=1)
    try:
        trainer = ModelTrainer(
            "smol", policy, LIBRARY, calls=2, repairs=0, budget_tokens=100,
            sampling=Sampling(temperature=0.7, max_tokens=120),
        )  # fmt: skip
        (found,) = trainer.propose(real, 0)
    finally:
        policy.close()
    assert found.tokens > 500
    assert 1 <= len(found.calls) <= 2
    assert bool(found.failure) != bool(found.patch)
    assert sum(call["tokens"] for call in found.calls) == found.tokens
