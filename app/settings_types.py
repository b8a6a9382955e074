"""Types of values in the configuration file of the manager. Pure."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from httpserver.address import BindError, check_host, parse_bind_address
from kube.model.durations import duration_text, parse_duration


def _validator(check: Callable[[str], Any]) -> AfterValidator:
    """A validator of texts that are empty or pass the check, which raises `BindError`."""

    def validate(text: str) -> str:
        try:
            if text:
                check(text)
        except BindError as error:
            raise ValueError(str(error)) from error
        return text

    return AfterValidator(validate)


BindAddress = Annotated[str, _validator(parse_bind_address)]
Host = Annotated[str, _validator(check_host)]
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(duration_text, when_used="json"),
    WithJsonSchema({"type": "string", "format": "duration"}),
]
as_tuple = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
Texts = Annotated[tuple[str, ...], as_tuple]
