"""Values that a person wrote, read and checked: an error names file, field, value and problem."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coevolve.core.errors import UserError

Model = TypeVar("Model", bound=BaseModel)


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{path} is not TOML: {error}") from None


def checked(model: type[Model], values: Mapping[str, Any], where: str) -> Model:
    """An instance of `model`; `where` says where the values come from."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise UserError(f"{where}: {field} = {first['input']!r:.80}: {first['msg']}") from None
