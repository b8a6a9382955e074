"""Exported policies on a real API server that asks no webhook: the verdicts and words of `jobset policy eval`.

Each example is judged by the policies of all rules. They warn, so one dry run has the verdicts of all of them.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from api.features import FeatureGates
from api.keys import NAMESPACE_NAME
from authoring.checks import Checks
from authoring.findings import Report
from authoring.policies import judged_of
from authoring.suites import suites
from dev.cluster.cluster import Cluster
from dev.reference.policies import EXAMPLES
from kube.model.meta import JSON
from policy.compiled.policy import Circumstances, compiled_name, validating_objects
from policy.evaluate import violations
from policy.exception_types import read_exception
from policy.judged import JudgedJobSet
from policy.namespaces import namespace_of
from policy.registry import RULES
from policy.sentences import kebab
from policy.types import read_policy
from tests.integration.test_validate_server import validate
from tests.support.cluster import requests as clusters
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import apply, request, wait_for
from tests.support.corpus import policy_table
from tests.support.corpus.rule_cases import Case, cases
from tests.support.objects.jobsets import jobset, rjob
from tests.support.objects.policies import exception, manifest

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
COLLECTIONS = {
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
}
GATES = FeatureGates({"AllAlpha": True})
NAMES = [rule.name for rule in RULES.values()]
WARNED, DENIED, TABLE = "exported-warns", "exported-denies", "exported-table"
UNCUT = 8
"""So many warnings stay below the API server's limit."""
LABELS = {"quota.example.com/gpus": "32", "quota.example.com/jobs": "3"}
OTHER_WORDS = {
    "nodeSelectors",
    "priorityClasses",
    "requiredQueue",
    "restartStrategies",
    "managedBy",
    "exclusiveTopologies",
}
"""Rules that say which allowed value may have been meant; the exported ones only list them."""


def restricted(policy: JSON, namespace: str, actions: list[str]) -> JSON:
    """The policy for one namespace, with other actions."""
    match = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    return {**policy, "spec": {**policy["spec"], "match": match, "validationActions": actions}}


def loaded(name: str) -> tuple[JSON, dict[str, JSON]]:
    """The policy and the JobSets of a rule's page."""
    file = EXAMPLES / f"{kebab(name)}.yaml"
    (suite,) = suites([str(file)], Report(), GATES)
    return next(iter(yaml.safe_load_all(file.read_text()))), suite.jobsets


def judged(js: JSON) -> JudgedJobSet:
    checks = Checks(GATES)
    found = judged_of(checks.findings_about_new(checks.prepare(js), children=False).object, GATES)
    assert found is not None
    return found


def offline(policy: JSON, js: JSON, labels: dict[str, str] | None = None) -> list[str]:
    """What the policy says without a cluster, with the place of each finding."""
    where = namespace_of(
        policy["spec"]["match"]["namespaceSelector"]["matchLabels"][NAMESPACE_NAME], labels or LABELS, {}
    )
    return [str(violation.error) for violation in violations([read_policy(policy)], judged(js), where)]


def store(cluster: Cluster, policy: JSON, *exceptions: JSON) -> None:
    """Apply what is exported of a policy."""
    own = Circumstances(("kueue",), [read_exception(each) for each in exceptions], datetime.now(UTC))
    for body in validating_objects(read_policy(policy), own):
        apply(cluster, COLLECTIONS[body["kind"]], body)


def remove(cluster: Cluster, *policies: JSON) -> None:
    for body in policies:
        for collection in COLLECTIONS.values():
            request(cluster, "DELETE", f"{collection}/{compiled_name(body['metadata']['name'])}")


def warnings(cluster: Cluster, js: JSON, namespace: str = WARNED) -> dict[str, str]:
    """Messages in the warnings about a dry run, by the name of the policy; the JobSet has to be admitted."""
    answer = clusters._send(cluster, "POST", f"{JOBSETS.format(namespace)}?dryRun=All", json.dumps(js))
    assert answer.status == 201, answer.data
    found = {}
    for warning in re.findall(r'299 - "((?:\\.|[^"])*)"', answer.headers.get("Warning", "")):
        text = re.sub(r"\\(.)", r"\1", warning)
        name, message = re.findall(r"^Validation failed for .* with binding 'jobset-policy-(.*?)': (.*)$", text)[0]
        found[name] = message
    return found


@pytest.fixture(scope="module")
def policies(jobset_server: Cluster) -> Iterator[dict[str, JSON]]:
    """The policy of each rule's page, exported with warnings, in force."""
    for name in (WARNED, DENIED):
        body = {"metadata": {"name": name, "labels": LABELS}}
        assert request(jobset_server, "POST", "/api/v1/namespaces", body)[0] == 201
    found = {name: restricted(loaded(name)[0], WARNED, ["Warn"]) for name in NAMES}
    for policy in found.values():
        store(jobset_server, policy)
    for name in NAMES:
        bad = loaded(name)[1]["bad"]
        wait_for(lambda bad=bad, name=name: kebab(name) in warnings(jobset_server, bad), what=f"the policy of {name}")
    yield found
    remove(jobset_server, *found.values())
    for name in (WARNED, DENIED):
        clusters.drop_namespace(jobset_server, name)


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_each_rule_get_the_verdicts_of_the_command(
    jobset_server: Cluster, policies: dict[str, JSON], name: str
):
    for js in loaded(name)[1].values():
        wanted = {kebab(rule): found for rule, policy in policies.items() if (found := offline(policy, js))}
        got = warnings(jobset_server, js)
        assert got.keys() == wanted.keys()
        if name not in OTHER_WORDS:
            assert [finding for finding in wanted.get(kebab(name), ()) if finding not in got[kebab(name)]] == []


def namespace_of_cases(case: Case) -> str:
    """The namespace for cases of this rule, since the API server judges a JobSet by all policies of its namespace."""
    return f"exported-{kebab(case.rule)}"


@pytest.fixture(scope="module")
def every_case(jobset_server: Cluster) -> Iterator[dict[str, JSON]]:
    """A policy for each field that a rule declares to read, exported with warnings, for a namespace of each rule."""
    demands = {json.dumps([case.rule, case.demand], sort_keys=True): case for case in cases()}
    namespaces = set(map(namespace_of_cases, demands.values()))
    for name in namespaces:
        assert request(jobset_server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    found = {
        demand: restricted(manifest(f"case-{i}", **{case.rule: case.demand}), namespace_of_cases(case), ["Warn"])
        for i, (demand, case) in enumerate(demands.items())
    }
    for policy in found.values():
        store(jobset_server, policy)
    yield found
    remove(jobset_server, *found.values())
    for name in namespaces:
        clusters.drop_namespace(jobset_server, name)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_what_breaks_a_rule_in_any_field_breaks_what_is_compiled_of_it(
    jobset_server: Cluster, every_case: dict[str, JSON], case: Case
):
    policy = every_case[json.dumps([case.rule, case.demand], sort_keys=True)]
    name, namespace = policy["metadata"]["name"], namespace_of_cases(case)
    js = case.jobset(namespace=namespace)
    said = wait_for(lambda: warnings(jobset_server, js, namespace).get(name), what="the policy")
    assert name not in warnings(jobset_server, case.jobset(bad=False, namespace=namespace), namespace)
    assert [finding for finding in offline(policy, js) if finding.partition(": ")[0] not in said] == []


def answered(cluster: Cluster, js: JSON, query: str = "?dryRun=All") -> tuple[int, str]:
    """Code and message of the answer to a create."""
    status, answer = request(cluster, "POST", JOBSETS.format(DENIED) + query, js)
    return status, answer.get("message", "")


@pytest.fixture
def in_force(jobset_server: Cluster, policies: dict[str, JSON]) -> Iterator[Any]:
    """Exports policies that deny, one after the other, each until the test ends. Its JobSet `bad` has to be refused."""
    stored: list[JSON] = []
    refused: list[JSON] = []

    def put(policy: JSON, bad: JSON, *exceptions: JSON) -> str:
        store(jobset_server, policy, *exceptions)
        stored.append(policy)
        refused.append(bad)
        wait_for(lambda: answered(jobset_server, bad)[0] == 422, what="the policy")
        return answered(jobset_server, bad)[1]

    yield put
    remove(jobset_server, *stored)
    clusters.request(jobset_server, "DELETE", JOBSETS.format(DENIED))
    for bad in refused:
        wait_for(lambda bad=bad: answered(jobset_server, bad)[0] == 201, what="the end of the policy")


def denying(**rules: Any) -> JSON:
    return restricted(manifest(**rules), DENIED, ["Deny"])


def sized(*replicas: int, name: str = "train", **spec: Any) -> JSON:
    """A JobSet with ReplicatedJobs of these sizes."""
    return jobset(*(rjob(f"w{i}", replicas=n) for i, n in enumerate(replicas)), name=name, namespace=DENIED, **spec)


def test_a_policy_that_denies_refuses_without_any_webhook_and_names_all_its_findings(
    jobset_server: Cluster, in_force: Any
):
    policy = denying(maxJobs={"max": 2}, ttl={"required": True}, requiredLabels=[{"key": "example.com/team"}])
    message = in_force(policy, sized(2, 3))
    prefix, _, text = message.partition(" denied request: ")
    assert prefix.endswith("ValidatingAdmissionPolicy 'jobset-policy-limits' with binding 'jobset-policy-limits'")
    found = offline(policy, sized(2, 3))
    assert len(found) == 3
    assert all(each in text for each in found)
    _, report, _ = validate(jobset_server.kubeconfig, sized(2, 3))
    assert sorted(f"{each['path']}: {each['message']}" for each in report["findings"]) == sorted(found)
    good = sized(2, ttlSecondsAfterFinished=1)
    good["metadata"]["labels"] = {"example.com/team": "a"}
    assert answered(jobset_server, good)[0] == 201


def test_a_limit_stands_at_the_namespace_and_one_that_is_none_is_said(jobset_server: Cluster, in_force: Any):
    policy = denying(maxJobs={"max": 99, "fromNamespaceLabel": "quota.example.com/jobs"})
    assert (
        "4 Jobs, and at most 3 allowed by label quota.example.com/jobs of the namespace; reduce replicas: w0 has 4"
        in (in_force(policy, sized(4)))
    )
    assert answered(jobset_server, sized(3))[0] == 201
    assert "by label" not in answered(jobset_server, sized(3))[1]
    namespace, merge = f"/api/v1/namespaces/{DENIED}", "application/merge-patch+json"
    said = 'the limit of Jobs is "1.5" by label quota.example.com/jobs of the namespace, which is not a whole number'
    try:
        bad = {"metadata": {"labels": {"quota.example.com/jobs": "1.5"}}}
        assert request(jobset_server, "PATCH", namespace, bad, merge)[0] == 200
        wait_for(lambda: said in answered(jobset_server, sized(3))[1], what="the label that is not a whole number")
    finally:
        request(jobset_server, "PATCH", namespace, {"metadata": {"labels": LABELS}}, merge)
    wait_for(lambda: answered(jobset_server, sized(3))[0] == 201, what="the label that is a whole number")


def test_an_update_is_refused_only_for_what_it_makes_worse(jobset_server: Cluster, in_force: Any):
    one, merge = f"{JOBSETS.format(DENIED)}/train", "application/merge-patch+json"
    large = sized(9, suspend=True)
    large["metadata"]["labels"] = {"a": "b"}
    assert answered(jobset_server, large, "")[0] == 201
    policy = denying(maxJobs={"max": 3}, requiredLabels=[{"key": "a"}, {"key": "c"}], imagesByDigest=True)
    in_force(policy, sized(4))
    assert request(jobset_server, "PATCH", one, {"spec": {"suspend": False}}, merge)[0] == 200
    assert request(jobset_server, "PATCH", one, {"metadata": {"annotations": {"x": "y"}}}, merge)[0] == 200
    status, answer = request(jobset_server, "PATCH", one, {"metadata": {"labels": {"a": None}}}, merge)
    assert (status, answer["message"].partition("request: ")[2]) == (
        422,
        "metadata.labels.a: Required value: policy limits; add the label a",
    )
    js = request(jobset_server, "GET", one)[1]
    for jobs, code in ((10, 422), (8, 200), (9, 422), (2, 200)):
        js["spec"]["replicatedJobs"][0]["replicas"] = jobs
        status, answer = request(jobset_server, "PUT", one, js)
        assert (jobs, status) == (jobs, code), answer
        js = answer if status == 200 else js
    js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    assert request(jobset_server, "PUT", one, js)[0] == 422
    assert request(jobset_server, "DELETE", one)[0] == 200


def test_another_value_of_a_node_selector_is_another_violation(jobset_server: Cluster, in_force: Any):
    one = f"{JOBSETS.format(DENIED)}/train"
    chosen = jobset(rjob(pod={"nodeSelector": {"rack": "0"}}), namespace=DENIED, suspend=True)
    assert answered(jobset_server, chosen, "")[0] == 201
    in_force(denying(nodeSelectors={"allowed": [{"key": "pool"}]}, maxJobs={"max": 3}), sized(4))
    js = request(jobset_server, "GET", one)[1]
    for rack, code in (("7", 422), ("0", 200)):
        js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"rack": rack}
        assert request(jobset_server, "PUT", one, js)[0] == code
    assert request(jobset_server, "DELETE", one)[0] == 200


def test_an_exception_ends_to_the_second_and_nobody_has_to_apply_anything(jobset_server: Cluster, in_force: Any):
    policy = denying(maxJobs={"max": 3})
    policy["spec"]["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "1h"}
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=20)
    own = exception(expiresAt=ends.isoformat(), match={"names": ["big"]})
    own["metadata"] |= {"namespace": DENIED, "creationTimestamp": datetime.now(UTC).isoformat(timespec="seconds")}
    in_force(policy, sized(4), own)
    assert answered(jobset_server, sized(4, name="big"))[0] == 201
    wait_for(lambda: datetime.now(UTC) >= ends, what="the end of the exception")
    assert answered(jobset_server, sized(4, name="big"))[0] == 422


def test_a_large_set_costs_less_than_the_api_server_allows(jobset_server: Cluster, policies: dict[str, JSON]):
    """300 ReplicatedJobs of four containers, each with labels and tolerations: judged by every rule, none fails."""
    container = {
        "image": "registry.example.com/team/a@sha256:1",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": f"c{i}", **container} for i in range(4)],
        "tolerations": [{"key": f"example.com/{i}", "operator": "Exists"} for i in range(8)],
        "nodeSelector": {f"example.com/{i}": "a" for i in range(8)},
    }
    large = jobset(*(rjob(f"w{i}", replicas=0, pod=pod) for i in range(300)), namespace=WARNED)
    found = warnings(jobset_server, large)
    wanted = {kebab(rule) for rule, policy in policies.items() if offline(policy, large)}
    assert found.keys() == wanted
    assert {name: text for name, text in found.items() if "cost limit" in text or "resulted in error" in text} == {}


def in_table(policy: str) -> str:
    return f"table-{policy}"


@pytest.fixture
def table(jobset_server: Cluster) -> Iterator[None]:
    """The 30 policies of the table under names of their own, exported with warnings, in force in a namespace."""
    body = {"metadata": {"name": TABLE, **{key: policy_table.NAMESPACE[key] for key in ("labels", "annotations")}}}
    assert request(jobset_server, "POST", "/api/v1/namespaces", body)[0] == 201
    policies = [restricted(policy, TABLE, ["Warn"]) for policy in policy_table.policies()]
    for policy in policies:
        policy["metadata"] = {"name": in_table(policy["metadata"]["name"])}
        store(jobset_server, policy)
    for js, broken in policy_table.jobsets():
        if len(broken) == 1:
            name = in_table(broken[0][0])
            wait_for(lambda js=js, name=name: name in warnings(jobset_server, js, TABLE), what=f"the policy {name}")
    yield
    remove(jobset_server, *policies)
    clusters.drop_namespace(jobset_server, TABLE)


@pytest.mark.timeout(300)
def test_30_exported_policies_judge_300_jobsets_as_the_table(jobset_server: Cluster, table: None):
    """Which policies speak, and of which place. The API server cuts warnings of more than 4 KiB."""
    judged = 0
    for js, broken in policy_table.jobsets():
        said = warnings(jobset_server, js, TABLE)
        if len(broken) <= UNCUT:
            assert {in_table(name) for name, _ in broken} == said.keys(), js["metadata"]["name"]
            assert [(name, path) for name, path in broken if path not in said[in_table(name)]] == []
        else:
            assert said.keys() < {in_table(name) for name, _ in broken}
        judged += 1
    assert judged == policy_table.JOBSETS
