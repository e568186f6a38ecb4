"""Values that a person wrote, read and checked: an error names file, field, value and problem."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coevolve.core.errors import UserError
from coevolve.core.names import did_you_mean

Model = TypeVar("Model", bound=BaseModel)

PLAINER = {"tuple_type": 'give a list, such as ["one", "two"] or [1, 2]'}
"""What is said in the place of pydantic's words, by the kind of mistake."""
NUMBER = "constrained-int"
"""What pydantic adds to the place of a setting that may be a number or a word."""


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
        place = [str(part) for part in first["loc"] if part != NUMBER]
        field, value = ".".join(place), f"{first['input']!r:.80}"
        if first["type"] == "missing":  # its input is all the rest
            raise UserError(f"{where}: {field} is missing") from None
        if first["type"] == "extra_forbidden":
            known = settings(model, place[:-1])
            hint = did_you_mean(place[-1], known)
            hint += f" Known: {', '.join(known)}" if known else ""
            raise UserError(f"{where}: {field} = {value}: there is no such setting{hint}") from None
        words = PLAINER.get(first["type"], first["msg"].removeprefix("Value error, "))
        if first["type"] == "value_error" and isinstance(first["input"], Mapping):
            # Several settings that do not go together.
            raise UserError(f"{', '.join(filter(None, (where, field)))}: {words}") from None
        raise UserError(f"{where}: {field} = {value}: {words}") from None


def read_tables(model: type[Model], file: Path, **given: Any) -> list[Model]:
    """The values of a TOML file that has one table for each, named after it; `given` are settings
    that no file can claim."""
    found = []
    for name, values in read_toml(file).items():
        if not isinstance(values, dict):
            kind = model.__name__.lower()
            raise UserError(f"{file}: {name} = {values!r:.60} is not a {kind}; begin with [NAME]")
        found.append(checked(model, {**values, "name": name, **given}, f"{file}, [{name}]"))
    return found


def settings(model: type[BaseModel], place: list[str]) -> list[str]:
    """The fields at a place within a model, as far as that is made of models."""
    for name in place:
        field = model.model_fields.get(name)
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return list(model.model_fields)
