"""Data sets of the Hugging Face hub, or folders in its formats, as rows.

hf:openai/gsm8k:main:test      name, configuration, split
hf:math-ai/aime24::test        without a configuration
hf:my_folder::train            a folder of JSON or Parquet files on this machine
"""

import logging
from collections.abc import Iterator
from typing import Any

from coevolve.core.errors import UserError

PREFIX = "hf:"


def read_rows(name: str) -> Iterator[dict[str, Any]]:
    """The rows of a data set, whatever its columns."""
    place, *rest = name.removeprefix(PREFIX).split(":")
    if not place or len(rest) > 2:
        raise UserError(f"'{name}' names no data set; write hf:NAME:CONFIGURATION:SPLIT")
    configuration, split = (*rest, "", "")[:2]
    try:
        import datasets
    except ImportError:
        raise UserError(f"'{name}' needs datasets: pip install datasets") from None
    datasets.disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of every try
    try:
        found = datasets.load_dataset(place, configuration or None, split=split or "train")
    except Exception as error:  # the capture point of the hub: it raises whatever its parts raise
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise UserError(
            f"cannot get '{name}' ({reason:.160}); without a network, give a JSONL file instead"
        ) from None
    for row in found:
        yield dict(row)
