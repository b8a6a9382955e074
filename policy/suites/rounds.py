"""Groups the tests of a suite into rounds, whose tests an API server can judge at the same time. Pure.

At one time a namespace has one set of labels, and at most one JobSet of a name. Tests that agree about these form a
round.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from policy.exception_types import JobSetPolicyException
from policy.exceptions import EARLIEST, duration_of, namespace_exceptions, standing, time_of
from policy.namespaces import DEFAULT
from policy.suites.types import SuiteContents, SuiteNamespace, SuiteTest

MIN_REMAINING = timedelta(minutes=5)
"""The minimum time for which an exception of a test is stored, so that it does not end during the test."""


def namespace_name(test: SuiteTest) -> str:
    """The name of the namespace of a test."""
    return test.namespace.name or DEFAULT


@dataclass(slots=True)
class Round:
    """Tests of a suite, by their indexes, and the objects that they share.

    - `namespaces`: the namespaces by name. `times`: the time of the tests in each namespace.
    - `stored_jobsets`: by namespace and name, the JobSet of the suite that is stored there before policies are in
      force; empty for no JobSet.
    """

    test_indexes: list[int] = field(default_factory=list)
    namespaces: dict[str, SuiteNamespace] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)
    stored_jobsets: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def old_jobsets(self) -> dict[tuple[str, str], str]:
        """The JobSets that have to be stored before policies are in force, by namespace and name."""
        return {key: old_jobset for key, old_jobset in self.stored_jobsets.items() if old_jobset}

    def add(self, index: int, test: SuiteTest, *, has_exceptions: bool) -> bool:
        """Add a test if it agrees with the other tests. Returns whether it was added.

        `has_exceptions`: whether the suite has exceptions. If it has, tests of a namespace have to have the same time.
        """
        name, time = namespace_name(test), test.time if has_exceptions else ""
        key = (name, test.jobset)
        if (
            self.namespaces.get(name, test.namespace) != test.namespace
            or self.times.get(name, time) != time
            or self.stored_jobsets.get(key, test.old_jobset) != test.old_jobset
        ):
            return False
        self.namespaces[name], self.times[name], self.stored_jobsets[key] = test.namespace, time, test.old_jobset
        self.test_indexes.append(index)
        return True


def rounds(contents: SuiteContents, indexes: Iterable[int]) -> list[Round]:
    """The rounds of the tests with these indexes. Tests without a stored JobSet come first."""
    result: list[Round] = []
    tests, has_exceptions = contents.suite.tests, bool(contents.exceptions)
    for index in sorted(indexes, key=lambda index: bool(tests[index].old_jobset)):
        if not any(round_.add(index, tests[index], has_exceptions=has_exceptions) for round_ in result):
            result.append(Round())
            result[-1].add(index, tests[index], has_exceptions=has_exceptions)
    return result


def standing_exceptions(
    contents: SuiteContents, round_: Round, now: datetime
) -> list[tuple[str, JobSetPolicyException, datetime]]:
    """The exceptions that count at the times of a round, each with its namespace and its end by the real clock.

    The clocks of the API server and the manager cannot be set, so an exception is stored with its remaining time.
    """
    policies = {policy.metadata.name: policy for policy in contents.policies}
    result = []
    for name, namespace in round_.namespaces.items():
        time = time_of(round_.times[name]) or EARLIEST
        for exception in namespace_exceptions(contents.exceptions, name):
            policy = policies.get(exception.spec.policy)
            state = standing(exception, policy, namespace.as_namespace, time)
            if policy and policy.spec.exceptions and state.end_time and not state.why_not:
                max_duration = duration_of(policy.spec.exceptions.max_duration)
                result.append((name, exception, now + min(max(state.end_time - time, MIN_REMAINING), max_duration)))
    return result
