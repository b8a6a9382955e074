"""What is stored and yet does not do what its author thinks: each dead end has its place and its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.features import FeatureGates
from app.engine import engine
from kube.model.field import ErrorType, FieldError, Path, Rule, Severity
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from webhooks.jobset.answers import MAX_WARNING_LENGTH, MAX_WARNINGS, warning_texts

ENGINE = engine(FeatureGates({"AllAlpha": True}))
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
RULES = "spec.failurePolicy.rules"
JOB = "spec.replicatedJobs[0].template.spec"
NO_EFFECT = "no effect without exclusive-topology beside it"
MIXED = "the strategies do not mix: another level asks for exclusive placement by rack, which is by affinity"


def rules(*items: JSON) -> JSON:
    return {"rules": [{"name": f"r{i}", "action": "FailJobSet", **item} for i, item in enumerate(items)]}


def wait(name: str, status: str = "Complete") -> JSON:
    return {"name": name, "status": status}


def annotated(js: JSON, /, **places: JSON) -> JSON:
    """Annotations on the JobSet, the Job template of the first ReplicatedJob, its pod template."""
    js["metadata"]["annotations"] = places.get("js", {})
    template = js["spec"]["replicatedJobs"][0]["template"]
    template["metadata"] = {"annotations": places.get("job", {})}
    template["spec"]["template"]["metadata"] = {"annotations": places.get("pod", {})}
    return js


WARNED: dict[str, tuple[JSON, list[str]]] = {
    "patterns that are not RE2": (
        jobset(failurePolicy=rules({"onJobFailureMessagePatterns": ["ok.*", "(", "(?=x)", r"(a)\1", r"\C"]})),
        [
            f"{RULES}[0].onJobFailureMessagePatterns[1]: never matches, not RE2: missing ): (",
            f"{RULES}[0].onJobFailureMessagePatterns[2]: never matches, not RE2: invalid perl operator: (?=",
            f"{RULES}[0].onJobFailureMessagePatterns[3]: never matches, not RE2: invalid escape sequence: \\1",
            f"{RULES}[0].onJobFailureMessagePatterns[4]: never matches, not RE2: invalid escape sequence: \\C",
        ],
    ),
    "as many patterns as are tried": (
        jobset(failurePolicy=rules({"onJobFailureMessagePatterns": [f"x{k}" for k in range(256)]})),
        [],
    ),
    "more patterns than are tried": (
        jobset(failurePolicy=rules({"onJobFailureMessagePatterns": [f"x{k}" for k in range(257)]})),
        [f"{RULES}: the policy has 257 patterns, and those after the first 256 never match"],
    ),
    "exclusive where pods are left alone": (
        annotated(jobset(namespace="kube-system"), js={EXCLUSIVE: "rack"}),
        ["metadata.namespace: pods in kube-system reach no webhook: no Job gets a domain of its own"],
    ),
    "any of several Jobs, of which some run pods": (
        jobset(rjob("a", parallelism=0), rjob("b"), successPolicy={"operator": "Any"}),
        [],
    ),
    "any success completes the set": (
        jobset(rjob("a"), rjob("b", dependsOn=[wait("a")]), successPolicy={"operator": "Any"}),
        ['spec.replicatedJobs[1].dependsOn: "b" never starts: by then the set is Completed'],
    ),
    "stages that all count": (
        jobset(rjob("a"), rjob("b", dependsOn=[wait("a")]), rjob("c", dependsOn=[wait("b")])),
        [],
    ),
    "rules that an earlier one takes all of": (
        jobset(
            rjob("a"),
            rjob("b"),
            failurePolicy=rules(
                {"targetReplicatedJobs": ["a"], "onJobFailureReasons": ["BackoffLimitExceeded"]},
                {"targetReplicatedJobs": ["a"], "onJobFailureMessagePatterns": ["x"]},
                {"targetReplicatedJobs": ["a"], "onJobFailureReasons": ["BackoffLimitExceeded"]},
                {"targetReplicatedJobs": ["a", "b"]},
                {"targetReplicatedJobs": ["b"], "onJobFailureMessagePatterns": ["y"]},
            ),
        ),
        [
            f"{RULES}[2]: never reached: rule 0 matches everything that it would match",
            f"{RULES}[4]: never reached: rule 3 matches everything that it would match",
        ],
    ),
    "rules about pods, of which one takes all of another": (
        jobset(
            rjob("a"),
            failurePolicy=rules({"onPodReasons": ["Evicted", "OutOfcpu"]}, {}, {"onPodReasons": ["Evicted"]}),
        ),
        [f"{RULES}[2]: never reached: rule 0 matches everything that it would match"],
    ),
    "a reason that no target can give": (
        jobset(
            rjob("a"),
            rjob("b", job={"podFailurePolicy": {"rules": []}, "template": {"spec": {"containers": []}}}),
            failurePolicy=rules(
                {"onJobFailureReasons": ["PodFailurePolicy", "BackoffLimitExceeded"], "targetReplicatedJobs": ["a"]},
                {"onJobFailureReasons": ["PodFailurePolicy", "DeadlineExceeded"]},
            ),
        ),
        [
            f"{RULES}[0].onJobFailureReasons[0]: Jobs never fail for this reason: no target sets podFailurePolicy",
            f"{RULES}[1].onJobFailureReasons[1]: Jobs never fail for this reason: no target sets activeDeadlineSeconds",
        ],
    ),
    "a strategy for which nobody gives a topology": (
        annotated(jobset(), js={STRATEGY: "true"}, job={STRATEGY: "true"}, pod={STRATEGY: "true"}),
        [
            f"metadata.annotations[{STRATEGY}]: {NO_EFFECT}",
            f"spec.replicatedJobs[0].template.metadata.annotations[{STRATEGY}]: {NO_EFFECT}",
            f"{JOB}.template.metadata.annotations[{STRATEGY}]: {NO_EFFECT}",
        ],
    ),
    "a strategy once more, on the Job template": (
        annotated(jobset(), js={EXCLUSIVE: "rack", STRATEGY: "true"}, job={STRATEGY: "true"}),
        [f"spec.replicatedJobs[0].template.metadata.annotations[{STRATEGY}]: {NO_EFFECT}"],
    ),
    "a strategy once more, on the JobSet": (
        annotated(jobset(), js={STRATEGY: "true"}, job={EXCLUSIVE: "rack", STRATEGY: "true"}),
        [f"metadata.annotations[{STRATEGY}]: {NO_EFFECT}"],
    ),
    "topology on the pods of a JobSet that has one": (
        annotated(jobset(), js={EXCLUSIVE: "rack"}, pod={EXCLUSIVE: "zone"}),
        [],
    ),
    "a node label value that nobody gets": (
        annotated(jobset(rjob("w" * 30, replicas=0), rjob("b"), namespace="n" * 40), job={EXCLUSIVE: "rack", STRATEGY: "true"}),
        [],
    ),
    "a stage without Jobs never starts and never has to": (
        jobset(rjob("a"), rjob("b", replicas=0, dependsOn=[wait("a")]), successPolicy={"operator": "Any"}),
        [],
    ),
    "a stage without Jobs is complete at once": (
        jobset(rjob("a", replicas=0, parallelism=0), rjob("b", dependsOn=[wait("a")])),
        [],
    ),
    "a Job that needs no pods completes at once": (jobset(rjob("a", parallelism=0, completions=0)), []),
    "both on one level": (annotated(jobset(), js={EXCLUSIVE: "rack", STRATEGY: "true"}), []),
    "the Job template's own topology": (annotated(jobset(), js={EXCLUSIVE: "rack"}, job={EXCLUSIVE: "zone"}), []),
}  # fmt: skip


@pytest.mark.parametrize("case", WARNED)
def test_warned(case: str):
    js, expected = WARNED[case]
    findings = ENGINE.findings_about_new(stored(js), defaults=False)
    assert findings.errors == ()
    assert [f"{warning.path}: {warning.detail}" for warning in findings.warnings] == expected
    assert all(0 < len(text) <= MAX_WARNING_LENGTH for text in warning_texts(findings.warnings))


REFUSED: dict[str, tuple[JSON, str, str]] = {
    "the same by the pod template": (
        annotated(jobset(rjob(job={"completionMode": "NonIndexed"})), pod={EXCLUSIVE: "rack"}),
        f"{JOB}.completionMode",
        "exclusive placement by rack needs Indexed Jobs",
    ),
    "topology on the JobSet, strategy on the pods, which would then be left alone": (
        annotated(jobset(rjob(job={"completionMode": "NonIndexed"})), js={EXCLUSIVE: "rack"}, pod={STRATEGY: ""}),
        f"{JOB}.template.metadata.annotations[{STRATEGY}]",
        MIXED,
    ),
    "topology on the Job template, strategy on the JobSet": (
        annotated(jobset(rjob(), rjob("b")), js={STRATEGY: "true"}, job={EXCLUSIVE: "rack"}),
        f"metadata.annotations[{STRATEGY}]",
        MIXED,
    ),
    "topology on the pods, strategy on the JobSet": (
        annotated(jobset(), js={STRATEGY: "true"}, pod={EXCLUSIVE: "rack"}),
        f"metadata.annotations[{STRATEGY}]",
        MIXED,
    ),
    "topology on the pods, strategy on the Job template": (
        annotated(jobset(), job={STRATEGY: "true"}, pod={EXCLUSIVE: "rack"}),
        f"spec.replicatedJobs[0].template.metadata.annotations[{STRATEGY}]",
        MIXED,
    ),
    "an empty topology on the Job template": (
        annotated(jobset(), job={EXCLUSIVE: ""}),
        f"spec.replicatedJobs[0].template.metadata.annotations[{EXCLUSIVE}]",
        "name part must be non-empty",
    ),
    "a node label value that is too long": (
        annotated(jobset(rjob("w" * 30), namespace="n" * 40), js={EXCLUSIVE: "rack", STRATEGY: "true"}),
        "spec.replicatedJobs[0].name",
        "<namespace>_<job> of the node-selector strategy would exceed 63 bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_placement_that_cannot_work_is_refused(case: str):
    js, path, words = REFUSED[case]
    [error] = ENGINE.findings_about_new(stored(js), defaults=False).errors
    assert (str(error.path), words in error.detail) == (path, True)


def test_a_warning_is_given_once():
    rule = Rule("some-rule", ErrorType.INVALID, "the same", "", "nowhere", severity=Severity.WARNING)
    assert warning_texts([rule.at(Path(("spec",)), 1), rule.at(Path(("spec",)), 2)]) == ("spec: the same [some-rule]",)


FIX = "take the image from one of these registries, or ask for an exception: jobset policy which -n team-a"


def a_warning(path: Path, detail: str, fix: str = FIX) -> str:
    rule = Rule("some-rule", ErrorType.INVALID, "", "", "nowhere", severity=Severity.WARNING)
    [text] = warning_texts([FieldError(path, ErrorType.INVALID, None, detail, fix, rule)])
    return text


def test_a_long_warning_keeps_its_fix():
    path = Path(("spec", "replicatedJobs", 11, "template", "spec", "template", "spec", "containers", 2, "image"))
    registries = ", ".join(f"registry-{number}.example.com/team" for number in range(20))
    text = a_warning(path, f"policy images: the image comes from none of {registries}")
    assert "spec.containers[2].image: policy images: the image comes from none of " in text
    assert text.endswith(f".example.com/team; {FIX} [some-rule]")
    assert len(text) <= MAX_WARNING_LENGTH
    assert a_warning(path, "policy images: no").endswith(f"image: policy images: no; {FIX} [some-rule]")


def test_a_fix_that_is_too_long_leaves_room_for_what_is_wrong():
    text = a_warning(Path(("spec",)), "what is wrong " * 20, "do this " * 100)
    assert text.startswith("spec: what is wrong what is wrong ")
    assert "; do this do this " in text


def test_a_long_path_keeps_which_one_and_what():
    place = Path(("spec", "replicatedJobs", 0, "template", "spec", "template", "metadata", "annotations", EXCLUSIVE))
    text = a_warning(place, "belongs on the Job template " * 7, "")
    assert text.startswith("spec.replicatedJobs[0]...")
    assert text.partition(": ")[0].endswith(f"annotations[{EXCLUSIVE}]")


@given(
    st.lists(
        st.tuples(
            st.lists(st.one_of(st.text(max_size=60), st.integers(0, 99)), max_size=12), st.text(max_size=400), st.text()
        ),
        max_size=30,
    )
)
def test_warnings_keep_within_the_limits_whatever_they_say(found: list[tuple[list[str | int], str, str]]):
    rule = Rule("some-rule", ErrorType.INVALID, "", "", "nowhere", severity=Severity.WARNING)
    warnings = [FieldError(Path(tuple(p)), ErrorType.INVALID, None, detail, fix, rule) for p, detail, fix in found]
    texts = warning_texts(warnings)
    assert len(texts) <= MAX_WARNINGS
    assert all(len(text) <= MAX_WARNING_LENGTH for text in texts)
    assert bool(texts) == bool(warnings)
