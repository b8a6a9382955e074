"""Types of the fields in the manager's configuration file (`app.settings`), with their pydantic validators. Pure."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from httpserver.address import BindError, check_host, parse_bind_address
from kube.model.durations import duration_text, parse_duration


def _validator(check: Callable[[str], Any]) -> AfterValidator:
    """The validator of strings that accepts an empty string, and strings for which `check` raises no `BindError`."""

    def validate(text: str) -> str:
        try:
            if text:
                check(text)
        except BindError as error:
            raise ValueError(str(error)) from error
        return text

    return AfterValidator(validate)


BindAddress = Annotated[str, _validator(parse_bind_address)]  # `host:port`, `:port`, or `0` for no server
Host = Annotated[str, _validator(check_host)]  # name or IP address
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(duration_text, when_used="json"),
    WithJsonSchema({"type": "string", "format": "duration"}),
]
"""Seconds, written as a Go duration such as `1m30s`."""
# YAML has lists, and settings, which never change, have tuples.
as_tuple = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
Texts = Annotated[tuple[str, ...], as_tuple]
