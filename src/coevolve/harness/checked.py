"""Values that a person wrote, checked against a model: an error names field, value and problem."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coevolve.core.errors import UserError

Model = TypeVar("Model", bound=BaseModel)


def checked(model: type[Model], values: Mapping[str, Any], where: str) -> Model:
    """An instance of `model`; `where` says where the values come from."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise UserError(f"{where}: {field} = {first['input']!r:.80}: {first['msg']}") from None
