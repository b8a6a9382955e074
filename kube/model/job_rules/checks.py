"""Building blocks of the tables of rules: checks of a JSON value, and their combinations. Pure.

A check takes a path and the value there, and returns errors with the API server's messages. Values of a wrong type
pass: the schema of the CRD refuses them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

from kube.model.field import ErrorType, FieldError, Path, quote
from kube.model.meta import MAX_INT32

Check = Callable[[Path, Any], Iterable[FieldError]]


def invalid(path: Path, value: Any, detail: str) -> FieldError:
    """A value that is invalid; an object or a list is not shown."""
    if isinstance(value, dict | list):
        return FieldError(path, ErrorType.INVALID, value, verbatim=f"{ErrorType.INVALID.text}: {detail}")
    return FieldError(path, ErrorType.INVALID, value, detail)


def missing(path: Path, detail: str = "") -> FieldError:
    return FieldError(path, ErrorType.REQUIRED, None, detail)


def forbidden(path: Path, detail: str) -> FieldError:
    return FieldError(path, ErrorType.FORBIDDEN, None, detail)


def duplicate(path: Path, value: Any) -> FieldError:
    """A value that an earlier item has."""
    return FieldError(path, ErrorType.DUPLICATE, value)


def duplicates(values: Iterable[tuple[Path, Any]]) -> Iterator[FieldError]:
    """Each value that an earlier item has already."""
    seen: set[Any] = set()
    for path, value in values:
        if value in seen:
            yield duplicate(path, value)
        seen.add(value)


def not_found(path: Path, value: Any, detail: str = "") -> FieldError:
    """A name of something that does not exist."""
    return FieldError(path, ErrorType.NOT_FOUND, value, detail)


def not_supported(path: Path, value: Any, supported: Iterable[str]) -> FieldError:
    return FieldError(path, ErrorType.NOT_SUPPORTED, value, f"supported values: {', '.join(map(quote, supported))}")


def too_many(path: Path, count: int, most: int) -> FieldError:
    return FieldError(path, ErrorType.TOO_MANY, count, f"must have at most {most} items")


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is an integer of the API."""
    return isinstance(value, int) and not isinstance(value, bool)


def entries(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects in a list with their indexes; nothing for a value that is not a list."""
    if isinstance(value, list):
        yield from ((i, item) for i, item in enumerate(value) if isinstance(item, dict))


def fields(*of_object: Check, **of_members: Check) -> Check:
    """Checks of the object as a whole, and of its members by name, where they are set."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if not isinstance(value, dict):
            return
        for test in of_object:
            yield from test(path, value)
        for name, test in of_members.items():
            if value.get(name) is not None:
                yield from test(path.at(name), value[name])

    return check


def each(check: Check) -> Check:
    """A check of each item of a list."""

    def check_all(path: Path, value: Any) -> Iterator[FieldError]:
        for i, item in enumerate(value) if isinstance(value, list) else ():
            yield from check(path.at(i), item)

    return check_all


def both(*checks: Check) -> Check:
    """Several checks of one value."""
    return lambda path, value: (error for check in checks for error in check(path, value))


def needs(*names: str, detail: str = "") -> Check:
    """Members of an object that may be neither absent nor empty."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        yield from (missing(path.at(name), detail) for name in names if value.get(name) in (None, "", []))

    return check


def not_empty(path: Path, value: Any) -> Iterator[FieldError]:
    """A text that may be absent, but not empty."""
    if value == "":
        yield missing(path)


def member(name: str, absent: Any, check: Check) -> Check:
    """A member of an object that is always checked: if it is missing, its value is `absent`."""
    return lambda path, value: check(path.at(name), absent if value.get(name) is None else value[name])


def text(complaints: Callable[[str], Iterable[str]], *, empty: bool = False) -> Check:
    """A text of a certain form; `empty`: whether an empty text is checked, too."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if isinstance(value, str) and (value or empty):
            yield from (invalid(path, value, complaint) for complaint in complaints(value))

    return check


def one_of(*supported: str, empty: bool = False) -> Check:
    """One of these words; `empty`: whether an empty text is refused, too, instead of standing for the default."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if isinstance(value, str) and (value or empty) and value not in supported:
            yield not_supported(path, value, supported)

    return check


def required_word(*supported: str) -> Check:
    """One of these words, which is required: if it is empty, the supported ones are reported."""
    words = " ".join(map(quote, supported))

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if not value:
            yield missing(path, f"valid values: [{words}]")
        elif isinstance(value, str) and value not in supported:
            yield not_supported(path, value, supported)

    return check


def number(good: Callable[[int], bool], detail: str) -> Check:
    """A number that meets a condition."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if is_whole(value) and not good(value):
            yield invalid(path, value, detail)

    return check


def between(least: int, most: int) -> Check:
    """A number of a range."""
    return number(lambda value: least <= value <= most, f"must be between {least} and {most}, inclusive")


not_negative = number(lambda value: value >= 0, "must be greater than or equal to 0")
positive = number(lambda value: value > 0, "must be greater than zero")
identity = between(0, MAX_INT32)
"""A user or a group, by number."""
file_mode = number(lambda value: 0 <= value <= 0o777, "must be a number between 0 and 0777 (octal), both inclusive")
