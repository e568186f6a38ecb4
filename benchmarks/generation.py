"""Drawing answers: our generator beside transformers' own, same model, prompts and batch.

    python benchmarks/generation.py [--model pocket] [--domain lake] [--batch 64 512]
        [--max-tokens 128] [--json F]

Tokens per second, counted up to the end token of each row, after one warm-up call of each.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.policies.hardware import computing
from coevolve.policies.local import LocalPolicy, render


def plain(policy: LocalPolicy, ids: list[list[int]], max_tokens: int) -> list[int]:
    """Lengths of the answers that transformers draws."""
    model, tokenizer = policy.loaded.model, policy.loaded.tokenizer
    batch = tokenizer.pad({"input_ids": ids}, padding_side="left", return_tensors="pt")
    batch = batch.to(model.device)
    with torch.no_grad(), computing(model):
        drawn = model.generate(
            **batch, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
            max_new_tokens=max_tokens, eos_token_id=policy.loaded.end_ids,
            pad_token_id=tokenizer.pad_token_id,
        )[:, batch["input_ids"].shape[1] :].cpu()  # fmt: skip
    ends = torch.isin(drawn, torch.tensor(policy.loaded.end_ids))
    lengths = torch.where(ends.any(1), ends.int().argmax(1) + 1, drawn.shape[1])
    return lengths.tolist()


def own(policy: LocalPolicy, ids: list[list[int]], max_tokens: int) -> list[int]:
    """Lengths of the answers that our generator draws."""
    answers = policy.generator.generate(ids, range(len(ids)), max_tokens, 1.0)
    return [len(answer.tokens) for answer in answers]


def rate(draw: Any, *arguments: Any, repeats: int) -> float:
    draw(*arguments)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    tokens = sum(sum(draw(*arguments)) for _ in range(repeats))
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return tokens / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--domain", default="lake")
    parser.add_argument("--batch", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    domain = get_domain(arguments.domain)
    policy = LocalPolicy(arguments.model)
    style = policy.loaded.style(domain.name)
    tasks = list(domain.generate(domain.space.parse({}), max(arguments.batch), 1, Split.DEV))
    prompts = [render(policy.loaded.tokenizer, domain.prompt(task, style)) for task in tasks]
    rows = []
    for batch in arguments.batch:
        ids = [prompts[row // arguments.group] for row in range(batch)]
        rates = [
            rate(draw, policy, ids, arguments.max_tokens, repeats=arguments.repeats)
            for draw in (plain, own)
        ]
        rows.append({"batch": batch, "transformers": rates[0], "own": rates[1]})
        print(
            f"{arguments.model}, batch {batch} in groups of {arguments.group}: transformers "
            f"{rates[0]:,.0f} tokens/s, own {rates[1]:,.0f}, ratio {rates[1] / rates[0]:.2f}",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"model": arguments.model, "rates": rows}))


if __name__ == "__main__":
    main()
