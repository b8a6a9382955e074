"""What becomes of the cluster's word about a JobSet itself; what a real one says is in tests/integration."""

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import yaml

from api.features import FeatureGates
from authoring.checks import CheckError, Checks
from authoring.server_checks import ServerChecks
from cli.check import cluster
from cli.check.validate import Options, check, exit_code
from kube.client import Client
from kube.model.field import FieldError
from kube.transport import Request, Response
from tests.support.kubeconfigs import kubeconfig
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.policies import manifest
from webhooks.jobset.answers import warning_texts

pytestmark = pytest.mark.looptime


class Cluster:
    """Takes everything, but answers the creation of a JobSet with one code and text, causes and warnings.

    `answers` to what is read, by the end of the path.
    """

    def __init__(self, code: int, message: str, *causes: tuple[str, str], warnings: tuple[str, ...] = ()) -> None:
        details = {"causes": [{"field": field, "message": text} for field, text in causes]}
        body = {"kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "Unknown"}
        headers = {"warning": ", ".join(f'299 - "{text}"' for text in warnings)} if warnings else {}
        self.stored = Response(404, {}, b'{"kind":"Status","reason":"NotFound","code":404}')
        self.answers: dict[str, Response] = {}
        self._answer = Response(code, headers, msgspec.json.encode({**body, "details": details}))

    async def send(self, request: Request) -> Response:
        if request.verb in {"create", "patch"} and "/jobsets" in request.path:
            assert ("dryRun", "All") in request.query
            return self._answer
        if request.verb == "get" and "/jobsets/" in request.path:
            return self.stored
        found = (answer for end, answer in self.answers.items() if request.verb == "get" and request.path.endswith(end))
        return next(found, Response(201, {}, b"{}"))

    async def close(self) -> None:
        """Nothing."""


async def asked(cluster: Cluster, body: dict[str, Any] | None = None) -> list[FieldError]:
    checks = Checks(FeatureGates(), "default")
    found = await ServerChecks(Client(cluster)).check(checks, checks.prepare(body or jobset()))
    return [*found.errors, *found.warnings]


async def findings(code: int, message: str) -> list[tuple[str, bool]]:
    found = await asked(Cluster(code, message))
    return [(error.rule.id if error.rule else "", error.is_warning) for error in found]


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (201, "", []),
        (409, "exists", []),
        (403, 'jobsets.jobset.x-k8s.io is forbidden: User "me" cannot create', [("jobset-not-tried", True)]),
        (403, 'jobsets.jobset.x-k8s.io "train" is forbidden: User "me" cannot patch', [("jobset-not-tried", True)]),
        (403, 'jobsets.jobset.x-k8s.io "train" is forbidden: exceeded quota', [("jobset-refused", False)]),
        (400, 'admission webhook "a.b" does not support dry run', [("jobset-not-tried", True)]),
        (400, 'admission webhook "a.b" denied the request', [("jobset-refused", False)]),
        (422, "ValidatingAdmissionPolicy 'x' denied request", [("jobset-refused", False)]),
    ],
)
async def test_a_refusal_is_a_fault_unless_it_is_about_who_asks_or_how(code: int, message: str, expected: object):
    assert await findings(code, message) == expected


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_cluster_that_cannot_answer_is_no_verdict(code: int):
    with pytest.raises(CheckError):
        await findings(code, "not now")


async def test_a_user_that_the_cluster_does_not_know_is_told_how_to_get_in(monkeypatch, tmp_path):
    class Refusing:
        async def send(self, _: Request) -> Response:
            return Response(401, {}, b'{"kind":"Status","reason":"Unauthorized","message":"Unauthorized"}')

        async def close(self) -> None:
            pass

    monkeypatch.setattr("cli.session.HttpTransport", lambda *_, **__: Refusing())
    with pytest.raises(CheckError, match=r"context 'x'\): user 'u' is not accepted: .*; log in again"):
        async with cluster.connect(kubeconfig(tmp_path, "https://c:6443"), ""):
            pass


async def test_jobsets_count_though_the_cluster_stops_answering(ask_server, write):
    class Tires(Cluster):
        """Takes the first JobSet."""

        async def send(self, request: Request) -> Response:
            if request.verb == "create" and request.path.endswith("/jobsets") and "second" in str(request.body):
                return await super().send(request)
            return Response(201, {}, b"{}") if request.verb == "create" else await super().send(request)

    ask_server(Tires(500, "webhooks do not answer"))
    documents = "---\n".join(yaml.safe_dump(jobset(name=name)) for name in ("first", "second", "third"))
    report = await check(Options([write(documents)], FeatureGates(), server=True))
    assert report.summary == "1 file, 3 JobSets, 0 errors, 0 warnings"
    (problem,) = report.problems
    assert "500 Unknown: webhooks do not answer; JobSets that were checked there: 1" in problem


@pytest.mark.parametrize(("strict", "code"), [(False, 0), (True, 2)])
async def test_a_check_that_a_missing_right_prevents_is_a_note_and_not_green_if_strict(ask_server, write, strict, code):
    refused = Cluster(403, 'jobsets.jobset.x-k8s.io is forbidden: User "me" cannot create')

    ask_server(refused)
    options = Options([write(jobset())], FeatureGates(), server=True, strict=strict)
    report = await check(options)
    assert (report.errors, report.warnings, report.notes) == (0, 0, 1)
    assert exit_code(report, options) == code
    assert [("not everything was checked" in text) for text in report.problems] == [True] * strict


async def test_each_cause_of_a_refusal_is_a_fault_at_its_place():
    places = ("spec.failurePolicy.rules[0].action", "spec.suspend")
    found = await asked(Cluster(422, "no", *((place, f"not {place}") for place in places), ("", "no place")))
    assert [str(error.path) for error in found] == sorted(places)
    assert [
        f"the cluster refuses it: not {place}" in error.detail
        for error, place in zip(found, sorted(places), strict=True)
    ] == [True, True]


async def test_a_warning_of_the_cluster_is_one_of_the_report_and_counts_once():
    found = await asked(Cluster(201, "", warnings=("wait: the quota is small", "wait: the quota is small")))
    assert [(error.rule.id if error.rule else "", error.detail) for error in found] == [
        ("cluster-warns", "the cluster warns: wait: the quota is small")
    ]


OURS = 'admission webhook "vjobset.kb.io" denied the request: JobSet.jobset.x-k8s.io "train" is invalid'


async def test_what_our_own_webhook_says_stands_at_its_place_without_a_frame():
    place, text = "spec.replicatedJobs[0].template", "Forbidden: policy tenants: no host network; remove hostNetwork"
    (fault,) = await asked(Cluster(422, OURS, (place, text)))
    assert str(fault) == f"{place}: {text}"
    (warned,) = await asked(Cluster(201, "", warnings=(f"{place}: policy tenants: by tag; write a digest",)))
    assert (str(warned.path), warned.detail, warned.fix) == (place, "policy tenants: by tag; write a digest", "")


async def test_a_warning_with_a_cut_place_is_at_the_name():
    (warned,) = await asked(Cluster(201, "", warnings=("spec.replicatedJobs[1]...annotations[a]: no",)))
    assert str(warned.path) == "metadata.name"


async def test_warnings_of_a_refusal_are_in_the_report_too():
    found = await asked(Cluster(422, OURS, ("spec.suspend", "Forbidden: no"), warnings=("spec.ttl: none", "small")))
    assert [(str(error.path), error.is_warning) for error in found] == [
        ("spec.suspend", False),
        ("metadata.name", True),
        ("spec.ttl", True),
    ]


SIZED = "spec.replicatedJobs[0].template.spec.parallelism"
NOT_ELASTIC = "Invalid value: 5: field is immutable; create a new JobSet"


async def grown(cluster: Cluster, **spec: Any) -> list[str]:
    """Places and texts of the errors of an update of a running JobSet that asks for five pods of four."""
    cluster.stored = Response(200, {}, msgspec.json.encode(stored(jobset(rjob(parallelism=4, completions=4)))))
    checks, body = Checks(FeatureGates({"AllAlpha": True}), "default"), jobset(rjob(parallelism=5, completions=4))
    body["spec"] |= spec
    found = await ServerChecks(Client(cluster)).check(checks, checks.prepare(body))
    return [f"{error.path}: {error.body}" for error in found.errors]


async def test_a_size_that_the_manager_keeps_is_immutable_beside_other_faults():
    found = await grown(Cluster(422, OURS, (SIZED, NOT_ELASTIC)), coordinator={"replicatedJob": "no"})
    assert found[1:] == [f"{SIZED}: {NOT_ELASTIC}"], "and not that completions must be equal to it"
    assert found[0].startswith("spec.coordinator.replicatedJob: ")


async def test_an_update_that_is_refused_gets_the_faults_of_a_new_set_as_well():
    bad = rjob("Bad_Name", pod={"containers": [{"name": "Main_X", "image": "busybox"}]})
    found = await grown(
        Cluster(422, OURS, ("spec.replicatedJobs", "Invalid value: field is immutable")), replicatedJobs=[bad]
    )
    assert [text.partition(": ")[0] for text in found] == [
        "spec.replicatedJobs",
        "spec.replicatedJobs[0].name",
        "spec.replicatedJobs[0].template.spec.template.spec.containers[0].name",
    ]
    assert await grown(Cluster(201, ""), replicatedJobs=[rjob(parallelism=4, completions=4)]) == [], (
        "it changes nothing"
    )


async def test_what_the_manager_says_of_sizes_is_said_once():
    place = "spec.replicatedJobs[0].template.spec.completions"
    (known,) = await grown(Cluster(201, ""))
    assert known.startswith(f"{place}: Invalid value: 4: completions must be equal to parallelism")
    assert await grown(Cluster(422, OURS, (place, known.removeprefix(f"{place}: ")))) == [known]


async def test_the_schema_says_nothing_twice_where_no_webhook_answers():
    assert len(await grown(Cluster(422, "is invalid", ("spec.coordinator", "no")), coordinator={})) == 2


DENIED = "ValidatingAdmissionPolicy 'jobset-policy-a' with binding 'jobset-policy-a' denied request: "


async def test_a_denial_by_a_policy_in_the_api_server_is_split_at_its_places():
    labels, class_name = (
        "metadata.labels[a.b/c]",
        "spec.replicatedJobs[0].template.spec.template.spec.priorityClassName",
    )
    one = "Required value: policy a: team, or owner; add it"
    two = f'Unsupported value: "x": policy a: {"long " * 500}; allowed are: "low", "high"'
    text = f"{DENIED}[{labels}: {one}, {class_name}: {two}, and 3 more]"
    found = await asked(Cluster(422, f"jobsets is forbidden: {text}", ("", text)))
    assert {str(error.path): error.body for error in found} == {
        labels: one,
        class_name: two,
        "metadata.name": "and 3 more",
    }
    (single,) = await asked(Cluster(422, "", ("", f"{DENIED}{labels}: {one}")))
    assert (str(single.path), single.body) == (labels, one)


async def test_a_warning_that_is_found_without_the_cluster_is_not_repeated():
    body = jobset(coordinator={"replicatedJob": "workers"}, network={"enableDNSHostnames": False})
    ours = [error for error in await asked(Cluster(201, ""), body) if error.is_warning]
    assert ours
    again = await asked(
        Cluster(201, "", warnings=(*warning_texts(ours), "and 3 more warnings; `jobset validate` shows them all")), body
    )
    assert again == ours


async def test_of_a_jobset_that_exists_it_is_said_that_references_were_not_looked_up(ask_server, write):
    cluster = Cluster(201, "")
    cluster.stored = Response(200, {}, msgspec.json.encode(stored(jobset())))

    ask_server(cluster)
    report = await check(Options([write(jobset())], FeatureGates(), server=True))
    assert report.summary == "1 file, 1 JobSet, 0 errors, 0 warnings, 1 note"
    [note] = report.findings
    assert (note.rule, note.severity) == ("references-not-looked-up", "note")
    assert note.error.fix == "`jobset explain train` says what its pods wait for"


class Bare(Cluster):
    """Has nothing that a pod may name."""

    async def send(self, request: Request) -> Response:
        if request.verb == "get" and not re.search(r"/(namespaces|jobsets)/[^/]+$", request.path):
            return Response(404, {}, b'{"kind":"Status","reason":"NotFound","code":404}')
        return await super().send(request)


VOLUMES = {
    "serviceAccountName": "trainer",
    "volumes": [
        {"name": "app", "configMap": {"name": "app"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ],
}


async def test_a_cluster_that_runs_for_the_checks_alone_lacks_nothing():
    checks = Checks(FeatureGates(), "default")
    sent = checks.prepare(jobset(rjob(pod=VOLUMES)))
    found = await ServerChecks(Client(Bare(201, "")), is_temporary=True).check(checks, sent)
    assert found.warnings == ()


@pytest.mark.parametrize(("empty", "names"), [(True, ["failurePolicyRule0"]), (False, [None])])
async def test_only_a_cluster_without_webhooks_is_sent_our_defaults(empty: bool, names: list[str | None]):
    sent_rules: list[Any] = []

    class Recording(Bare):
        async def send(self, request: Request) -> Response:
            if request.verb == "create" and request.path.endswith("/jobsets"):
                sent_rules.extend(msgspec.json.decode(request.body)["spec"]["failurePolicy"]["rules"])
            return await super().send(request)

    checks = Checks(FeatureGates(), "default")
    sent = checks.prepare(jobset(rjob(), failurePolicy={"rules": [{"action": "FailJobSet"}]}))
    await ServerChecks(Client(Recording(201, "")), is_temporary=empty).check(checks, sent)
    assert [rule.get("name") for rule in sent_rules] == names


TENANTS = {"namespaceSelector": {"matchLabels": {"tenant": "yes"}}}


def namespace(code: int, name: str, **labels: str) -> Response:
    body = {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}}
    return Response(code, {}, msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("code", "given", "found"),
    [
        (200, {}, ["policy-max-jobs-exceeded"]),
        (200, {"tenant": "no"}, ["policy-no-match"]),
        (403, {}, ["policy-no-match"]),
        (403, {"tenant": "yes"}, ["policy-max-jobs-exceeded"]),
    ],
)
async def test_policies_read_the_namespace_of_the_cluster_unless_labels_are_given(
    ask_server, write, code: int, given: dict[str, str], found: list[str]
):
    cluster = Cluster(201, "")
    cluster.answers["/namespaces/team-a"] = namespace(code, "team-a", tenant="yes")
    ask_server(cluster, "team-a")
    rules = manifest(match=TENANTS, maxJobs={"max": 1})
    body = jobset(rjob(replicas=2))
    body["metadata"].pop("namespace", None)
    options = Options([write(body)], FeatureGates(), server=True, policies=[write(rules, "policy.yaml")])
    report = await check(replace(options, namespace_labels=tuple(given.items())))
    assert [each.rule for each in report.findings] == found


async def test_a_namespace_of_the_files_adds_to_the_one_of_the_cluster(ask_server, write):
    cluster = Cluster(201, "")
    cluster.answers["/namespaces/default"] = namespace(200, "default", tenant="yes", jobs="9")
    ask_server(cluster)
    rules = manifest(match=TENANTS, maxJobs={"fromNamespaceLabel": "jobs"})
    own = {"kind": "Namespace", "metadata": {"name": "default", "labels": {"jobs": "1"}}}
    files = [write(yaml.safe_dump_all([own, jobset(rjob(replicas=2))]))]
    options = Options(files, FeatureGates(), server=True, policies=[write(rules, "policy.yaml")])
    (found,) = (await check(options)).findings
    assert "2 Jobs, and at most 1 allowed by label jobs of the namespace" in found.reader_text


async def test_defaults_of_local_policies_are_judged_and_not_sent_to_the_cluster(ask_server, write, tmp_path):
    class Asked(Cluster):
        tried: bytes = b""

        async def send(self, request: Request) -> Response:
            if request.verb == "create" and request.path.endswith("/jobsets"):
                self.tried = request.body or b""
            return await super().send(request)

    cluster = Asked(201, "")
    cluster.answers["/namespaces/default"] = namespace(200, "default")
    ask_server(cluster)
    (tmp_path / "policies").mkdir()
    setting = manifest("sets", ttl={"required": True})
    setting["spec"]["defaults"] = {"ttlSecondsAfterFinished": 60}
    policies = write(setting, "policies/p.yaml")
    options = Options([write(jobset())], FeatureGates(), server=True, policies=[policies])
    report = await check(options)
    assert (report.problems, report.errors, report.warnings) == ([], 0, 0), "with the default it meets the rule"
    assert cluster.tried
    assert b"ttlSecondsAfterFinished" not in cluster.tried
