"""Prompts that give their solution away."""

from coevolve.domains.giveaway import copied


def test_what_stands_behind_the_same_words_is_copied():
    words = ["rouse", "heart", "stone", "a b"]
    prompts = [f"Sort the letters.\nHint: the answer is '{word}'. Go on." for word in words]
    solutions = [f"I think: <answer>{word}</answer>" for word in words]
    before, answers = copied(prompts, solutions)
    assert before == "answer is"
    assert answers[:3] == solutions[:3]
    assert answers[3] == "I think: <answer>a</answer>"  # most solutions have one word


def test_longer_answers_are_copied_whole():
    prompts = [f"It is: blue {n} fish! Repeat." for n in range(5)]
    before, answers = copied(prompts, [f"so\nblue {n} fish" for n in range(5)])
    assert (before, answers) == ("It is:", [f"so\nblue {n} fish" for n in range(5)])


def test_prompts_that_hold_nothing_give_nothing():
    assert copied(["What is 3 + 4?", ""], ["<answer>7</answer>", "<answer></answer>"]) == ("", [])
