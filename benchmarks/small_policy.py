"""A small policy for one domain, from scratch: a Llama with fresh weights and a vocabulary of the
domain's own phrases, small enough for trees of versions on two cores.

    python benchmarks/small_policy.py -d math -k digits=1 -k steps=2 -o runs/small/math-fresh
    coevolve train warm -p runs/small/math-fresh -d math -k digits=1 -k steps=2 -o runs/small/math

A token is a digit, a phrase that is frequent in prompts and oracle answers of the train split (what
stands between digits, line by line), or else a byte, so that any text can be read and written. The
same arguments and seed give the same folder.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from coevolve.cli.tasks import parse_changes
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.registry import get_domain
from coevolve.pocket.build import fresh_llama

HEAD_WIDTH = 16
MOST_TOKENS = 1024
"""Positions, for prompt and answer together."""
PHRASE = re.compile(r"[^0-9\n]+\n?|\n{2,}")
PAD, END, ANSWER = "<pad>", "<end>", "<answer>"
CHAT_TEMPLATE = "{{ messages | map(attribute='content') | join('\n') }}" + ANSWER


def texts(domain: Domain, knobs: list[str], style: str, count: int, seed: int) -> Iterator[str]:
    """Prompts and oracle answers of tasks of the train split."""
    parsed = domain.space.parse(parse_changes(knobs))
    for task in domain.generate(parsed, count, derive(seed, "small", "texts"), Split.TRAIN):
        yield from (message.content for message in domain.prompt(task, style))
        yield domain.oracle(task, style)


def make_tokenizer(shown: Sequence[str], most: int) -> PreTrainedTokenizerFast:
    """Bytes, and the most frequent phrases."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {word: number for number, word in enumerate((PAD, END, ANSWER, *letters))}
    backend = Tokenizer(models.BPE(vocab=ids, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    counted = Counter(phrase for text in shown for phrase in PHRASE.findall(text))
    phrases = sorted(counted, key=lambda phrase: (-counted[phrase], phrase))[:most]
    backend.add_tokens([AddedToken(phrase, normalized=False) for phrase in phrases])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[ANSWER],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=MOST_TOKENS,
        model_input_names=["input_ids", "attention_mask"],
        chat_template=CHAT_TEMPLATE,
    )


def make_model(
    tokenizer: PreTrainedTokenizerFast, width: int, layers: int, seed: int
) -> LlamaForCausalLM:
    """Fresh weights."""
    return fresh_llama(
        derive(seed, "small", "weights"), len(tokenizer), width, layers, HEAD_WIDTH, MOST_TOKENS,
        pad=tokenizer.pad_token_id, end=tokenizer.eos_token_id,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--domain", "-d", required=True)
    parser.add_argument("--knob", "-k", action="append", default=[], help="NAME=VALUE, repeatable")
    parser.add_argument("--style", default="")
    parser.add_argument("--output", "-o", type=Path, required=True)
    parser.add_argument("--count", type=int, default=2_000, help="tasks that phrases come from")
    parser.add_argument("--phrases", type=int, default=512, help="at most, in the vocabulary")
    parser.add_argument("--width", type=int, default=64, help=f"a multiple of {HEAD_WIDTH}")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    domain = get_domain(chosen.domain)
    shown = list(texts(domain, chosen.knob, chosen.style, chosen.count, chosen.seed))
    tokenizer = make_tokenizer(shown, chosen.phrases)
    model = make_model(tokenizer, chosen.width, chosen.layers, chosen.seed)
    model.save_pretrained(chosen.output)
    tokenizer.save_pretrained(chosen.output)
    lengths = sorted(len(tokenizer(answer)["input_ids"]) for answer in shown[-3 * 200 + 2 :: 3])
    print(
        f"{model.num_parameters():,} parameters, {len(tokenizer)} tokens in {chosen.output}; "
        f"answers have {lengths[len(lengths) // 2]} tokens at the median, {lengths[-1]} at most"
    )


if __name__ == "__main__":
    main()
