"""Engineering as a domain: evidence of a training in, edits of its knobs out, regret as the reward.

What teaches a trainee to be a trainer, and the exam that every engineer sits.
"""
