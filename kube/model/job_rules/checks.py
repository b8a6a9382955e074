"""Building blocks of the tables of rules: errors, checks of a JSON value, and combinations of checks. Pure.

A check takes a path and the value there, and returns errors with the API server's messages. Values of a wrong type
pass: the schema of the CRD refuses them. Functions that return a `Check` say what this check demands.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

from kube.model.field import ErrorType, FieldError, Path, quote
from kube.model.meta import JSON, MAX_INT32

Check = Callable[[Path, Any], Iterable[FieldError]]


def invalid(path: Path, value: Any, detail: str) -> FieldError:
    """The error about an invalid value. Its text does not show an object or a list."""
    if isinstance(value, dict | list):
        return FieldError(path, ErrorType.INVALID, value, verbatim=f"{ErrorType.INVALID.text}: {detail}")
    return FieldError(path, ErrorType.INVALID, value, detail)


def missing(path: Path, detail: str = "") -> FieldError:
    return FieldError(path, ErrorType.REQUIRED, None, detail)


def forbidden(path: Path, detail: str) -> FieldError:
    return FieldError(path, ErrorType.FORBIDDEN, None, detail)


def duplicate(path: Path, value: Any) -> FieldError:
    """The error about a value that an earlier item has."""
    return FieldError(path, ErrorType.DUPLICATE, value)


def duplicates(values: Iterable[tuple[Path, Any]]) -> Iterator[FieldError]:
    """An error for each value that an earlier item has."""
    seen: set[Any] = set()
    for path, value in values:
        if value in seen:
            yield duplicate(path, value)
        seen.add(value)


def not_found(path: Path, value: Any, detail: str = "") -> FieldError:
    """The error about a name of an object that does not exist."""
    return FieldError(path, ErrorType.NOT_FOUND, value, detail)


def not_supported(path: Path, value: Any, supported: Iterable[str]) -> FieldError:
    return FieldError(path, ErrorType.NOT_SUPPORTED, value, f"supported values: {', '.join(map(quote, supported))}")


def too_many(path: Path, count: int, limit: int) -> FieldError:
    return FieldError(path, ErrorType.TOO_MANY, count, f"must have at most {limit} items")


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a value is a JSON integer: an int, but no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def entries(value: Any) -> Iterator[tuple[int, JSON]]:
    """The objects in a list, each with its index; nothing for a value that is not a list."""
    if isinstance(value, list):
        yield from ((i, item) for i, item in enumerate(value) if isinstance(item, dict))


def pod_containers(path: Path, pod: JSON) -> Iterator[tuple[Path, JSON]]:
    """The containers and init containers of the pod spec at `path`, each with its path."""
    for name in ("containers", "initContainers"):
        yield from ((path.at(name, i), container) for i, container in entries(pod.get(name)))


def fields(*object_checks: Check, **member_checks: Check) -> Check:
    """An object that passes `object_checks`, and whose members, if set, pass the `member_checks` of their names."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if not isinstance(value, dict):
            return
        for test in object_checks:
            yield from test(path, value)
        for name, test in member_checks.items():
            if value.get(name) is not None:
                yield from test(path.at(name), value[name])

    return check


def each(check: Check) -> Check:
    """A list whose items pass the check."""

    def check_all(path: Path, value: Any) -> Iterator[FieldError]:
        for i, item in enumerate(value) if isinstance(value, list) else ():
            yield from check(path.at(i), item)

    return check_all


def all_of(*checks: Check) -> Check:
    """A value that passes all checks."""
    return lambda path, value: (error for check in checks for error in check(path, value))


def needs(*names: str, detail: str = "") -> Check:
    """An object in which none of these members is absent or empty."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        yield from (missing(path.at(name), detail) for name in names if value.get(name) in (None, "", []))

    return check


def not_empty(path: Path, value: Any) -> Iterator[FieldError]:
    """A text that may be absent, but not empty."""
    if value == "":
        yield missing(path)


def member(name: str, default: Any, check: Check) -> Check:
    """An object whose member passes the check; an absent member has the value `default`."""
    return lambda path, value: check(path.at(name), default if value.get(name) is None else value[name])


def text(complaints: Callable[[str], Iterable[str]], *, empty: bool = False) -> Check:
    """A text without complaints; `empty`: an empty text is checked, too."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if isinstance(value, str) and (value or empty):
            yield from (invalid(path, value, complaint) for complaint in complaints(value))

    return check


def one_of(*supported: str, empty: bool = False) -> Check:
    """One of these words; `empty`: an empty text is refused instead of standing for the default."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if isinstance(value, str) and (value or empty) and value not in supported:
            yield not_supported(path, value, supported)

    return check


def required_word(*supported: str) -> Check:
    """One of these words; an empty value is reported as missing."""
    words = " ".join(map(quote, supported))

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if not value:
            yield missing(path, f"valid values: [{words}]")
        elif isinstance(value, str) and value not in supported:
            yield not_supported(path, value, supported)

    return check


def number(is_valid: Callable[[int], bool], detail: str) -> Check:
    """A number that meets a condition."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if is_integer(value) and not is_valid(value):
            yield invalid(path, value, detail)

    return check


def between(low: int, high: int) -> Check:
    return number(lambda value: low <= value <= high, f"must be between {low} and {high}, inclusive")


not_negative = number(lambda value: value >= 0, "must be greater than or equal to 0")
positive = number(lambda value: value > 0, "must be greater than zero")
user_or_group_id = between(0, MAX_INT32)
"""The number of a user or a group."""
file_mode = number(lambda value: 0 <= value <= 0o777, "must be a number between 0 and 0777 (octal), both inclusive")
