"""Which tests of a suite an API server can judge at the same time. Pure.

A namespace has one set of labels at a time, and a name in it one stored JobSet. Tests that need the same ones form a
round.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from policy.exception_types import JobSetPolicyException
from policy.exceptions import EARLIEST, duration_of, namespace_exceptions, standing, time_of
from policy.judged import Namespace
from policy.namespaces import DEFAULT, namespace_of
from policy.suites.types import SuiteContents, SuiteNamespace, SuiteTest

LEAST_LEFT = timedelta(minutes=5)
"""Least time for which an exception of a test is stored: it must not end during the test."""


def namespace_name(test: SuiteTest) -> str:
    return test.namespace.name or DEFAULT


@dataclass(slots=True)
class Round:
    """Tests, by their numbers, and the objects that they share.

    `namespaces`: by name. `times`: of tests, by namespace. `stored`: by namespace and name, which JobSet of the suite
    is stored under that name before policies are in force; "" is none.
    """

    tests: list[int] = field(default_factory=list)
    namespaces: dict[str, SuiteNamespace] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)
    stored: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def olds(self) -> dict[tuple[str, str], str]:
        """The JobSets that have to be stored first."""
        return {key: old for key, old in self.stored.items() if old}

    def add(self, number: int, test: SuiteTest, *, timed: bool) -> bool:
        """Add a test if it agrees with the others. Returns whether it does."""
        name, time = namespace_name(test), test.time if timed else ""
        key = (name, test.jobset)
        if (
            self.namespaces.get(name, test.namespace) != test.namespace
            or self.times.get(name, time) != time
            or self.stored.get(key, test.old_jobset) != test.old_jobset
        ):
            return False
        self.namespaces[name], self.times[name], self.stored[key] = test.namespace, time, test.old_jobset
        self.tests.append(number)
        return True


def rounds(contents: SuiteContents, numbers: Iterable[int]) -> list[Round]:
    """The rounds of these tests: first those that need no stored JobSet."""
    found: list[Round] = []
    tests, timed = contents.suite.tests, bool(contents.exceptions)
    for number in sorted(numbers, key=lambda number: bool(tests[number].old_jobset)):
        if not any(each.add(number, tests[number], timed=timed) for each in found):
            found.append(Round())
            found[-1].add(number, tests[number], timed=timed)
    return found


def standing_exceptions(
    contents: SuiteContents, round_: Round, now: datetime
) -> list[tuple[str, JobSetPolicyException, datetime]]:
    """The exceptions that count at the times of a round: namespace, exception, and its end by the real clock.

    The clocks of the API server and the manager cannot be set: an exception is stored with its remaining time.
    """
    policies = {policy.metadata.name: policy for policy in contents.policies}
    found = []
    for name, namespace in round_.namespaces.items():
        time = time_of(round_.times[name]) or EARLIEST
        location = _namespace_of(namespace)
        for exception in namespace_exceptions(contents.exceptions, name):
            policy = policies.get(exception.spec.policy)
            stands = standing(exception, policy, location, time)
            if policy and policy.spec.exceptions and stands.until and not stands.why_not:
                most = duration_of(policy.spec.exceptions.max_duration)
                found.append((name, exception, now + min(max(stands.until - time, LEAST_LEFT), most)))
    return found


def _namespace_of(namespace: SuiteNamespace) -> Namespace:
    return namespace_of(namespace.name, namespace.labels, namespace.annotations)
