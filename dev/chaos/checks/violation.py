"""The result of a check that fails."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken. `at` is in seconds since 1970, or 0 if the violation concerns the whole run."""

    rule: str
    subject: str
    text: str
    at: float = 0.0
