"""The pocket policy's tokenizer: words between spaces, nothing added, nothing lost.

Invariant: decoding what was encoded gives the same text back, for any text of known words joined
by single spaces.
"""

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from coevolve.pocket import vocabulary

MOST_TOKENS = 512
"""Positions the model has, for prompt and answer together."""

CHAT_TEMPLATE = "{{ messages | map(attribute='content') | join(' ') }}"
"""A prompt ends in the word after which the plan begins, so roles and turns need no marks."""


def make_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer, ready to be saved beside a model."""
    words = vocabulary.words()
    unknown = words[vocabulary.UNKNOWN]
    ids = {word: number for number, word in enumerate(words)}
    backend = Tokenizer(WordLevel(ids, unk_token=unknown))
    backend.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=words[vocabulary.END],
        pad_token=words[vocabulary.PAD],
        unk_token=unknown,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=MOST_TOKENS,
        model_input_names=["input_ids", "attention_mask"],
        chat_template=CHAT_TEMPLATE,
    )
