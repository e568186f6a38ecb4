"""The words of the pages, each explained in a sentence: on hover, and on a page of their own."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

GLOSSARY = {
    "backtest": "A trial of a change on stored rollouts, or on a few fresh tasks, before anything "
    "is trained with it.",
    "base": "The policy that the run begins with, before any training; also called the first "
    "policy.",
    "control": "A second training with as many rollouts, but without the change.",
    "dead groups": "Groups of attempts at one task that all earned the same: there is nothing to "
    "learn from them.",
    "dev": "Held-out tasks whose results engineers are shown.",
    "engineer": "Whoever proposes changes between trainings: a rule, a model, or the policy "
    "itself.",
    "entropy": "How undecided the policy is at each token, in nats; near 0 it always says the "
    "same.",
    "gate": "Held-out tasks that decide whether a version is kept; engineers never see them.",
    "generation": "One round of diagnosing, proposing, training and deciding.",
    "harness": "Everything about training that may be changed: tasks, reward, filters, wording, "
    "recipe.",
    "interval": "Where the true value lies with 95 % confidence, as far as these attempts tell.",
    "knobs": "The numbers that training tasks are made from, such as sizes and shares of kinds.",
    "need": "How much a kind of tasks fails on dev, and what tasks like it can teach. New knobs "
    "are compared with the current ones by it, unless the plan names another number.",
    "optimal": "A valid answer that is as good as possible.",
    "orchestration": "Time that goes into neither training nor measuring.",
    "paired": "Compared task by task, so that easy and hard tasks cancel out.",
    "policy": "The model that is trained.",
    "probe": "A few attempts at fresh tasks, to see what there is to learn from them.",
    "rollout": "One attempt at a task, with its answer and its reward.",
    "test": "Held-out tasks that are opened once, at the very end, by `coevolve final`.",
    "valid": "An answer that the domain's judge accepts.",
    "version": "A policy that was trained under one harness, with its results.",
}


def term(word: str, shown: str = "") -> "Markup":
    """A word that explains itself to whoever points at it."""
    from markupsafe import Markup

    text = '<abbr tabindex="0" title="{}">{}</abbr>'
    return Markup(text).format(GLOSSARY[word], shown or word)
