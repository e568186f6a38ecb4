"""A small policy for one domain, from scratch: a Llama with fresh weights and a vocabulary of the
domain's own phrases, small enough for trees of versions on two cores.

A token is a digit, a phrase that is frequent in prompts and oracle answers of the train split (what
stands between digits, line by line), or else a byte, so that any text can be read and written. The
same tasks and seed give the same folder.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knobs
from coevolve.domains.turns import players, shown
from coevolve.pocket.build import fresh_llama
from coevolve.policies.models import without_bars

WIDTH, LAYERS, TASKS, PLAYED, PHRASES = 64, 3, 2_000, 200, 512
"""Of the model; tasks that phrases come from, fewer where they have to be played, and how many of
these there are at most."""
HEAD_WIDTH = 16
LEAST_TOKENS = 1024
"""Positions, for prompt and answers together; more where demonstrations are long."""
PHRASE = re.compile(r"[^0-9\n]+\n?|\n{2,}")
PAD, END, ANSWER = "<|pad|>", "<|end|>", "<|answer|>"
"""Tokens that stand in no text of a domain."""
CHAT_TEMPLATE = (
    (
        "{% for one in messages %}"
        "{% if one.role == 'assistant' %}ANSWER{{ one.content }}END"
        "{% else %}"
        "{% if loop.previtem and loop.previtem.role != 'assistant' %}{{ '\\n' }}{% endif %}"
        "{{ one.content }}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}ANSWER{% endif %}"
    )
    .replace("ANSWER", ANSWER)
    .replace("END", END)
)


def texts(
    domain: Domain, knobs: Knobs, style: str, count: int, seed: int
) -> Iterator[tuple[str, ...]]:
    """All that is said in the oracle's attempts at tasks of the train split, prompts first."""
    for task in domain.generate(knobs, count, derive(seed, "small", "texts"), Split.TRAIN):
        asked = domain.prompt(task, style)
        said = shown(domain, task, style, asked, seed)
        begun = (message.content for message in asked)
        yield (*begun, *(text for turn in said for text in turn if text is not None))


def make_tokenizer(texts: Iterable[str], most: int) -> PreTrainedTokenizerFast:
    """Bytes, and the most frequent phrases."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {word: number for number, word in enumerate((PAD, END, ANSWER, *letters))}
    backend = Tokenizer(models.BPE(vocab=ids, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    counted = Counter(phrase for text in texts for phrase in PHRASE.findall(text))
    phrases = sorted(counted, key=lambda phrase: (-counted[phrase], phrase))[:most]
    backend.add_tokens([AddedToken(phrase, normalized=False) for phrase in phrases])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[ANSWER],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        chat_template=CHAT_TEMPLATE,
    )


def make_model(
    tokenizer: PreTrainedTokenizerFast, width: int, layers: int, seed: int
) -> LlamaForCausalLM:
    """Fresh weights."""
    return fresh_llama(
        derive(seed, "small", "weights"), len(tokenizer), width, layers, HEAD_WIDTH,
        tokenizer.model_max_length,
        pad=tokenizer.pad_token_id, end=tokenizer.eos_token_id,
    )  # fmt: skip


def make_small(
    domain: Domain, knobs: Knobs, style: str, folder: Path, seed: int = 0, tasks: int = TASKS
) -> int:
    """Write the model into a folder, and say how many weights it has."""
    tasks = min(tasks, PLAYED) if "oracle" in players(domain) else tasks
    attempts = list(texts(domain, knobs, style, tasks, seed))
    tokenizer = make_tokenizer(chain.from_iterable(attempts), PHRASES)
    longest = max(len(tokenizer("\n".join(said))["input_ids"]) for said in attempts)
    tokenizer.model_max_length = max(LEAST_TOKENS, 2 * longest)
    model = make_model(tokenizer, WIDTH, LAYERS, seed)
    with without_bars():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return int(model.num_parameters())
