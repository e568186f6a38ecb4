"""Prompts that give their solution away."""

from coevolve.domains.giveaway import given_away


def test_what_stands_behind_the_same_words_is_given_away():
    words = ["rouse", "heart", "stone", "a b"]
    prompts = [f"Sort the letters.\nHint: the answer is '{word}'. Go on." for word in words]
    solutions = [f"I think: <answer>{word}</answer>" for word in words]
    before, answers = given_away(prompts, solutions)
    assert before == "answer is"
    assert answers[:3] == solutions[:3]
    assert answers[3] == "I think: <answer>a</answer>"  # most solutions have one word


def test_longer_answers_are_copied_whole():
    prompts = [f"It is: blue {n} fish! Repeat." for n in range(5)]
    before, answers = given_away(prompts, [f"so\nblue {n} fish" for n in range(5)])
    assert (before, answers) == ("It is:", [f"so\nblue {n} fish" for n in range(5)])


def test_prompts_that_hold_nothing_give_nothing():
    solutions = ["<answer>7</answer>", "<answer></answer>"]
    assert given_away(["What is 3 + 4?", ""], solutions) == ("", [])
