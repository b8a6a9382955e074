"""The base of all models. Models use the API's names, refuse unknown fields, and write only fields that were set."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel

from jobset_client import faults, misplaced
from jobset_client.errors import UnreadableError
from jobset_client.manifest import read_manifest
from jobset_client.words import as_json, as_mapping, cut_list, in_lines, type_of

_KEEP_UNKNOWN = {"keep_unknown": True}


class Model(BaseModel):
    """A part of an object.

    Attributes have names such as `replicated_jobs`; the API's names, such as `replicatedJobs`, are read and written. A
    field that is absent or null is None, or an empty list. An unknown field is refused, with the name that was likely
    meant. Objects of the API server, and objects that are read with `keep_unknown=True`, keep unknown fields.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="allow",
        validate_assignment=True,
    )

    def __init__(self, /, **data: Any) -> None:
        """Raises `UnreadableError`, which names all faults."""
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise _unreadable_error(type(self).__name__, error) from None

    # The validation of nested objects bypasses this __init__, whose errors are for the caller.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    if not TYPE_CHECKING:  # with this method, type checkers would allow any name

        def __setattr__(self, name: str, value: Any) -> None:
            """Raises `UnreadableError` for an unknown attribute, and for a value of a wrong type."""
            model = type(self)
            field = model.model_fields.get(name)
            is_absent = value is None and field is not None and not field.is_required()
            if is_absent:
                value = field.get_default(call_default_factory=True)
            try:
                if not name.startswith("_") and field is None and name not in (self.model_extra or {}):
                    fault = faults.unknown_field_fault(name, value, model.model_fields, model.model_fields)
                    raise ValidationError.from_exception_data(model.__name__, [fault])
                super().__setattr__(name, value)
            except ValidationError as error:
                raise _unreadable_error(model.__name__, error) from None
            if is_absent:
                self.model_fields_set.discard(name)

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Read null as absent. Reports unknown fields together with other faults, unless they are kept."""
        if not isinstance(value, Mapping):
            return handler(value)
        attributes = _attributes_by_name(cls)
        unknown = (
            {}
            if info.context == _KEEP_UNKNOWN
            else {name: member for name, member in value.items() if name not in attributes}
        )
        known_fields = {
            name: member
            for name, member in value.items()
            if name not in unknown and (member is not None or name not in attributes)
        }
        if not unknown:
            return handler(known_fields)
        names = [field.serialization_alias or name for name, field in cls.model_fields.items()]
        unknown_faults = [
            faults.unknown_field_fault(name, member, cls.model_fields, names) for name, member in unknown.items()
        ]
        try:
            handler(known_fields)
        except ValidationError as error:
            unknown_faults += [faults.as_init_details(member) for member in error.errors()]
        raise ValidationError.from_exception_data(cls.__name__, unknown_faults)

    @model_serializer(mode="wrap")
    def _serialize(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The fields without None, and without empty lists and objects that were not set."""
        fields: dict[str, Any] = handler(self)
        current: Any = self
        if not isinstance(current, Model):  # a dict that was put into a list of models
            return fields
        for name, inner in list(fields.items()):
            field = _attributes_by_name(type(self)).get(name)
            if field is not None and (inner is None or (inner in ([], {}) and field not in self.model_fields_set)):
                del fields[name]
        return fields

    def to_dict(self) -> dict[str, Any]:
        """The object as JSON of the API. Raises `UnreadableError`, which names all values of a wrong type."""
        try:
            return self.model_dump(by_alias=True, warnings="error")
        except ValueError:  # pydantic warns of a value in a list or dict, which was not checked when it was added
            fields = self.model_dump(by_alias=True, warnings="none")
        try:
            return type(self).model_validate(fields, context=_KEEP_UNKNOWN).model_dump(by_alias=True)
        except ValidationError as error:
            raise _unreadable_error(type(self).__name__, error) from None


def _unreadable_error(
    subject: str,
    error: ValidationError,
    line: Callable[[faults.Path], int] | None = None,
    *,
    hint: str = "",
    earlier_faults: Sequence[str] = (),
    find_object_path: faults.FindObjectPath | None = None,
) -> UnreadableError:
    causes = [*earlier_faults, *faults.fault_texts(error, line, find_object_path)]
    text = in_lines(subject, cut_list(causes))
    if hint and faults.is_from_newer_version(error, find_object_path):
        text += f"{'; ' if len(causes) == 1 else chr(10)}{hint}"
    return UnreadableError(text, causes=tuple(causes))


@cache
def _attributes_by_name(model: type[BaseModel]) -> dict[str, str]:
    """The attribute of each field, by the name of the attribute and by the API's name."""
    aliases = {(field.serialization_alias or name): name for name, field in model.model_fields.items()}
    return {name: name for name in model.model_fields} | aliases


def plain(value: Any) -> Any:
    """The value as JSON. It may contain objects of `kubernetes`, `kubernetes_asyncio` or this package."""
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
        return {name: member for name, member in inner.items() if member is not None}
    return value


Template = Annotated[dict[str, Any], BeforeValidator(plain)]
"""A template: a dict with the API's names, or an object such as `kubernetes.client.V1JobTemplateSpec`."""


class ObjectMeta(Model):
    """Name, labels and annotations of an object, and the metadata that the API server adds."""

    name: str | None = None
    """Name, unique in the namespace."""
    generate_name: str | None = None
    """Prefix of the name; the API server adds a random suffix."""
    namespace: str | None = None
    """Namespace; that of the client where it is absent."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels, for selectors."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations."""
    uid: str | None = None
    """Identity of the object: one that is created again with the same name has another UID."""
    resource_version: str | None = None
    """Changes with each change of the object."""
    generation: int | None = None
    """Changes with each change of the spec."""
    creation_timestamp: str | None = None
    """When it was created: RFC 3339, seconds."""
    deletion_timestamp: str | None = None
    """When its deletion was requested; absent before."""
    deletion_grace_period_seconds: int | None = None
    """Seconds from then until it is removed."""
    finalizers: list[str] = Field(default_factory=list)
    """Controllers that have to act before it is removed."""
    owner_references: list[dict[str, Any]] = Field(default_factory=list)
    """The objects with which it is deleted."""
    managed_fields: list[dict[str, Any]] = Field(default_factory=list)
    """Which client has written which fields."""
    self_link: str | None = None
    """Not set any more."""


class Resource(Model):
    """An object with apiVersion, kind and metadata."""

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows: a summary of its state."""
        return str(
            import_module("jobset_client.states").as_html(self)
        )  # not imported above, since it imports the models

    @classmethod
    def from_dict(cls, body: Any, *, keep_unknown: bool = False) -> Self:
        """The object, from its JSON. Raises `UnreadableError`, which names all faults.

        `keep_unknown`: fields that this version does not know are kept, for a cluster with a newer JobSet.
        """
        return cls._validate_object(body, None, keep_unknown=keep_unknown)

    @classmethod
    def from_yaml(cls, text: str | bytes, *, keep_unknown: bool = False) -> Self:
        """The object, from a YAML or JSON text with only this object. Faults have line numbers. See `from_dict`."""
        manifest = read_manifest(text)
        return cls._validate_object(manifest.document.value, manifest.line, keep_unknown=keep_unknown)

    @classmethod
    def _validate_object(cls, body: Any, line: Callable[[faults.Path], int] | None, *, keep_unknown: bool) -> Self:
        if not isinstance(body, Mapping):
            raise UnreadableError(
                f"a manifest is an object with apiVersion, kind, metadata and spec, and this is {type_of(body)}"
            )
        header_faults = []
        for name in ("apiVersion", "kind"):
            expected = cls.model_fields[_attributes_by_name(cls)[name]].default
            if body.get(name, expected) != expected:
                line_prefix = f"line {line((name,))}: " if line else ""
                header_faults.append(f"{line_prefix}{name} is {as_json(body[name])}, not {as_json(expected)}")
                if name == "kind":  # the fields of another kind are not faults
                    raise UnreadableError("; ".join(header_faults), causes=tuple(header_faults))
        name_in_body = as_mapping(body.get("metadata")).get("name")
        subject = (
            f"{cls.__name__} {name_in_body}"
            if isinstance(name_in_body, str) and name_in_body
            else f"{cls.__name__} without a name"
        )
        try:
            parsed_model = cls.model_validate(body, context=_KEEP_UNKNOWN if keep_unknown else None)
        except ValidationError as error:
            find_path = partial(misplaced.path_of_nearest_object, cls)
            raise _unreadable_error(
                subject, error, line, hint=_NEWER_JOBSET_HINT, earlier_faults=header_faults, find_object_path=find_path
            ) from None
        if header_faults:
            raise UnreadableError("; ".join(header_faults), causes=tuple(header_faults))
        return parsed_model

    def to_yaml(self) -> str:
        """The object as YAML."""
        text: str = yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True, width=120)
        return text


_NEWER_JOBSET_HINT = "keep_unknown=True reads unknown fields nevertheless, for a cluster with a newer JobSet"
