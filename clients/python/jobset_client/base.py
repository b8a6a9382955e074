"""What all models share: names of the API, unknown fields that are kept, and only fields that were set are written."""

import datetime as dt
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel

from jobset_client.errors import UnreadableError

_MOST_FAULTS = 5
"""That one message names."""


class Model(BaseModel):
    """A part of an object.

    Attributes have names such as `replicated_jobs`; the API's names, such as `replicatedJobs`, are read and written. A
    field that is absent or null is None, or empty where it is a list. Fields that this version does not know are kept.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="allow",
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        known = _known(cls)
        return {name: inner for name, inner in value.items() if inner is not None or name not in known}

    @model_serializer(mode="wrap")
    def _what_is_set(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without None, and without empty lists and objects that were not set."""
        written: dict[str, Any] = handler(self)
        for name, inner in list(written.items()):
            field = _known(type(self)).get(name)
            if field is not None and (inner is None or (inner in ([], {}) and field not in self.model_fields_set)):
                del written[name]
        return written

    def to_dict(self) -> dict[str, Any]:
        """As the API has it."""
        return self.model_dump(by_alias=True)


@cache
def _known(model: type[BaseModel]) -> dict[str, str]:
    """The attribute of each name that a field has, here or in the API."""
    aliases = {(field.serialization_alias or name): name for name, field in model.model_fields.items()}
    return {name: name for name in model.model_fields} | aliases


def plain(value: Any) -> Any:
    """JSON of what may hold objects of the packages `kubernetes` and `kubernetes_asyncio`, or models of this one."""
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, dt.datetime):
        return value.isoformat()
    names = getattr(type(value), "attribute_map", None)
    if isinstance(names, Mapping):
        inner = {names[attribute]: plain(getattr(value, attribute)) for attribute in names}
        return {name: one for name, one in inner.items() if one is not None}
    return value


Template = Annotated[dict[str, Any], BeforeValidator(plain)]
"""A template: a dict with the API's names, or an object such as `kubernetes.client.V1JobTemplateSpec`."""


class ObjectMeta(Model):
    """Name, labels and annotations of an object, and what the API server says about it."""

    name: str | None = None
    """Name, unique in the namespace."""
    generate_name: str | None = None
    """Begin of the name; the API server adds some characters."""
    namespace: str | None = None
    """Namespace; that of the client where it is absent."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels, for selectors."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations."""
    uid: str | None = None
    """Which object it is: one that is created again under the same name has another."""
    resource_version: str | None = None
    """Changes with each change of the object."""
    generation: int | None = None
    """Changes with each change of the spec."""
    creation_timestamp: str | None = None
    """When it was created: RFC 3339, seconds."""
    deletion_timestamp: str | None = None
    """When its deletion was asked for; absent before."""


class _Loader(yaml.SafeLoader):
    """Leaves times as text, as the API has them."""

    yaml_implicit_resolvers = {
        first: [one for one in several if one[0] != "tag:yaml.org,2002:timestamp"]
        for first, several in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class Resource(Model):
    """A whole object."""

    @classmethod
    def from_dict(cls, body: Any) -> Self:
        """The object, from its JSON. Raises `UnreadableError` where its kind, or the type of a field, is wrong."""
        if not isinstance(body, Mapping):
            raise UnreadableError(f"this is {type(body).__name__}, not an object")
        for name in ("apiVersion", "kind"):
            wanted = cls.model_fields[_known(cls)[name]].default
            if body.get(name, wanted) != wanted:
                raise UnreadableError(f"{name} is {body[name]!r}, not {wanted!r}")
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            some = error.errors()[:_MOST_FAULTS]
            faults = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in some)
            metadata = body.get("metadata")
            called = metadata.get("name") if isinstance(metadata, Mapping) else None
            raise UnreadableError(f"{wanted} {called or 'without a name'}: {faults}") from error

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """The object, from YAML or JSON that holds it alone. Raises `UnreadableError`."""
        try:
            body = yaml.load(text, _Loader)  # noqa: S506 (a safe loader)
        except yaml.YAMLError as error:
            raise UnreadableError(f"this is not one document of YAML: {error}") from error
        return cls.from_dict(body)

    def to_yaml(self) -> str:
        """As people write it."""
        text: str = yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True, width=120)
        return text
