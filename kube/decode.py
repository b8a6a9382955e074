"""Decodes answers of the API server into typed records: null means absent, as for the API server itself."""

import functools
from typing import Any, TypeVar

import msgspec

from kube.errors import UnreadableAnswerError
from kube.model.jsontree import rephrase_for_json, without_nulls

T = TypeVar("T")


@functools.cache
def decoder(type: Any) -> msgspec.json.Decoder[Any]:  # noqa: A002 -- the name that msgspec uses
    """The decoder of a type, built once: building costs far more than decoding."""
    return msgspec.json.Decoder(type)


def decode(type: type[T], data: bytes) -> T:  # noqa: A002 -- the name that msgspec uses
    """A record from JSON. Raises `UnreadableAnswerError` with the path of the fault.

    Clients in other languages write null for a field without a value (`lastTransitionTime: null`). Most records have
    defaults for missing fields and few allow null, so a failed decoding is repeated without nulls.
    """
    hashable: Any = type
    try:
        try:
            result: T = decoder(hashable).decode(data)
        except msgspec.ValidationError:
            # Encoded again, because `msgspec.Raw` fields can be decoded from bytes only.
            data_without_nulls = msgspec.json.encode(without_nulls(msgspec.json.decode(data)))
            result = decoder(hashable).decode(data_without_nulls)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableAnswerError(rephrase_for_json(error)) from error
    return result


def convert(type: type[T], value: Any) -> T:  # noqa: A002 -- the name that msgspec uses
    """A record from decoded JSON. Raises `UnreadableAnswerError` with the path of the fault."""
    try:
        return msgspec.convert(without_nulls(value), type)
    except msgspec.ValidationError as error:
        raise UnreadableAnswerError(rephrase_for_json(error)) from error
