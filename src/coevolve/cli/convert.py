"""`coevolve convert`: a GGUF file as a folder that can be trained."""

from pathlib import Path
from typing import Annotated

import typer

from coevolve.core.errors import UserError


def convert(
    file: Annotated[Path, typer.Argument(help="A .gguf file.")],
    folder: Annotated[Path, typer.Argument(help="The new folder to write.")],
) -> None:
    """Write a .gguf file as a transformers folder, which can be trained.

    Weights that were stored in few bits become plain numbers, but keep their rounding errors.

    Example: coevolve convert qwen2.5-0.5b-q4_k_m.gguf qwen
    """
    from coevolve.policies.models import from_gguf

    if not file.is_file():
        raise UserError(f"there is no file {file}")
    if folder.exists():
        raise UserError(f"{folder} exists; give a folder that is to be made")
    from_gguf(file, folder)
    print(f"{folder}: train it with coevolve train -p {folder}")
