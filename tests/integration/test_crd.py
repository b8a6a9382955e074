"""The CRD alone, without webhooks, on a real API server of its own: what it takes, defaults, prunes and refuses."""

import copy
import json
from pathlib import Path

import pytest
import yaml

from api.jobset import STAGES_OR_DEPENDS_ON, STAGES_OR_STARTUP
from api.policies import ANY_WITH_SHARE, NOT_FAILED, NOT_SUSPENDED
from api.scheduling import ONE_MODE, ONE_POLICY, ONE_SOURCE
from devcluster.assets import Sources
from devcluster.cluster import running
from devcluster.spec import ClusterSpec
from manifests import crd, embedded
from tests.support.cluster import kubectl, request, wait_for

TRAINING = Path(__file__).parents[1] / "manifests" / "data" / "training.yaml"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
STRICT = "fieldValidation=Strict"


@pytest.fixture(scope="module")
def server(tmp_path_factory, binaries):
    """An API server with our CRD and nothing else of ours."""
    spec = ClusterSpec(name="crd", profile="api")
    with running(spec, sources=Sources(assets=binaries), state_root=tmp_path_factory.mktemp("crd")) as cluster:
        status, answer = request(cluster, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
        assert status == 201, answer
        wait_for(lambda: request(cluster, "GET", JOBSETS)[0] == 200, what="the CRD to be served")
        yield cluster


@pytest.fixture
def jobset(server, request_name):
    """Create, change and drop one JobSet; `send` answers (status, body) and `stored` demands success."""
    yield Sender(server, request_name)
    request(server, "DELETE", f"{JOBSETS}/{request_name}")


@pytest.fixture
def request_name(request):
    return "js-" + format(hash(request.node.nodeid) & 0xFFFFFFFF, "x")


class Sender:
    def __init__(self, server, name):
        self.server, self.name, self.path = server, name, f"{JOBSETS}/{name}"

    def send(self, spec, method="POST", query=STRICT, **more):
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": self.name},
            "spec": spec,
        }
        if method == "POST":
            return request(self.server, "POST", f"{JOBSETS}?{query}", body | more)
        return request(self.server, "PATCH", self.path, {"spec": spec} | more, "application/merge-patch+json")

    def stored(self, spec, **options):
        status, answer = self.send(spec, **options)
        assert status in {200, 201}, answer
        return request(self.server, "GET", self.path)[1]

    def refusal(self, spec, **options):
        """The causes, as (field, message)."""
        status, answer = self.send(spec, **options)
        assert status == 422, answer
        return [(c["field"], c["message"]) for c in answer["details"]["causes"]]


def replicated(**more):
    pod = {"containers": [{"name": "c", "image": "i"}]}
    return {"name": "w", "template": {"spec": {"template": {"spec": pod}}}} | more


def spec(**more):
    return {"replicatedJobs": [replicated()]} | more


def test_established_without_complaint(server):
    definition = request(
        server, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
    )[1]
    conditions = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}  # no NonStructuralSchema, no Terminating


def test_nothing_of_the_definition_is_lost(server):
    definition = request(
        server, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
    )[1]
    assert definition["spec"]["versions"] == crd()["spec"]["versions"]


def test_defaults_of_the_schema(jobset):
    given = spec(failurePolicy={}, volumeClaimPolicies=[{"retentionPolicy": {}}])
    given["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["ports"] = [
        {"containerPort": 80}
    ]
    stored = jobset.stored(given)["spec"]
    assert stored["replicatedJobs"][0]["replicas"] == 1
    assert stored["replicatedJobs"][0]["groupName"] == "default"
    assert stored["failurePolicy"] == {"restartStrategy": "Recreate"}
    assert stored["volumeClaimPolicies"] == [{"retentionPolicy": {"whenDeleted": "Delete"}}]
    container = stored["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert container == {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}


@pytest.mark.parametrize("empty", [{}, {"replicatedJobs": []}])
def test_a_jobset_without_replicated_jobs_is_accepted(jobset, empty):
    assert jobset.stored(empty)["spec"] == empty


def test_replicas_zero_is_accepted_and_kept(jobset):
    assert jobset.stored({"replicatedJobs": [replicated(replicas=0)]})["spec"]["replicatedJobs"][0]["replicas"] == 0


def test_generate_name(server):
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"generateName": "g-"},
        "spec": spec(),
    }
    status, answer = request(server, "POST", JOBSETS, body)
    assert status == 201
    assert answer["metadata"]["name"].startswith("g-")
    request(server, "DELETE", f"{JOBSETS}/{answer['metadata']['name']}")


RULE = {"name": "r", "action": "FailJobSet"}
CLAIM = {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
IN_ORDER = {"executionPolicyOrder": "InOrder"}
ACTIONS = (
    '"FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts", "RestartJob",'
    ' "RestartJobAndIgnoreMaxRestarts", "RestartReplicatedJob"'
)
TOO_MANY = "Too many: {}: must have at most {} items"
BELOW_1 = "Invalid value: 0: {} in body should be greater than or equal to 1"
ENTRY = "spec.scheduling.replicatedJobs[0]"


def entry(**fields):
    """One entry of spec.scheduling."""
    return {"scheduling": {"replicatedJobs": [{"targetReplicatedJobs": ["workers"], **fields}]}}


REFUSED = {
    "operator": ({"successPolicy": {"operator": "Some"}}, "spec.successPolicy.operator",
                 'Unsupported value: "Some": supported values: "All", "Any"'),
    "operator-missing": ({"successPolicy": {}}, "spec.successPolicy.operator", "Required value"),
    "strategy": ({"failurePolicy": {"restartStrategy": "Now"}}, "spec.failurePolicy.restartStrategy",
                 'Unsupported value: "Now": supported values: "Recreate", "BlockingRecreate", "InPlaceRestart"'),
    "rule-name": ({"failurePolicy": {"rules": [{"action": "FailJobSet"}]}}, "spec.failurePolicy.rules[0].name",
                  "Required value"),
    "rule-action": ({"failurePolicy": {"rules": [RULE | {"action": "Stop"}]}}, "spec.failurePolicy.rules[0].action",
                    f'Unsupported value: "Stop": supported values: {ACTIONS}'),
    "order": ({"startupPolicy": {"startupPolicyOrder": "Any"}}, "spec.startupPolicy.startupPolicyOrder",
              'Unsupported value: "Any": supported values: "AnyOrder", "InOrder"'),
    "order-missing": ({"startupPolicy": {}}, "spec.startupPolicy.startupPolicyOrder", "Required value"),
    "coordinator": ({"coordinator": {}}, "spec.coordinator.replicatedJob", "Required value"),
    "ttl": ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished",
            "Invalid value: -1: spec.ttlSecondsAfterFinished in body should be greater than or equal to 0"),
    "retention": ({"volumeClaimPolicies": [{"retentionPolicy": {"whenDeleted": "Drop"}}]},
                  "spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted",
                  'Unsupported value: "Drop": supported values: "Delete", "Retain"'),
    "claim-namespace": ({"volumeClaimPolicies": [{"templates": [CLAIM, {"metadata": {"namespace": "x"}}]}]},
                        "spec.volumeClaimPolicies[0]",
                        "Invalid value: namespace cannot be set for VolumeClaimPolicies templates"),
    "policies": ({"volumeClaimPolicies": [{}] * 51}, "spec.volumeClaimPolicies", TOO_MANY.format(51, 50)),
    "templates": ({"volumeClaimPolicies": [{"templates": [CLAIM] * 51}]}, "spec.volumeClaimPolicies[0].templates",
                  TOO_MANY.format(51, 50)),
    "replicas": ({"replicatedJobs": [replicated(replicas=-1)]}, "spec.replicatedJobs[0].replicas",
                 "Invalid value: -1: spec.replicatedJobs[0].replicas in body should be greater than or equal to 0"),
    "template": ({"replicatedJobs": [{"name": "w"}]}, "spec.replicatedJobs[0].template", "Required value"),
    "name": ({"replicatedJobs": [{"template": {}}]}, "spec.replicatedJobs[0].name", "Required value"),
    "names": ({"replicatedJobs": [replicated(), replicated()]}, "spec.replicatedJobs[1]",
              'Duplicate value: {"name":"w"}'),
    "depends-on-status": ({"replicatedJobs": [replicated(dependsOn=[{"name": "a", "status": "Up"}])]},
                          "spec.replicatedJobs[0].dependsOn[0].status",
                          'Unsupported value: "Up": supported values: "Ready", "Complete"'),
    "depends-on-six": ({"replicatedJobs": [replicated(dependsOn=[{"name": f"a{i}", "status": "Ready"} for i in range(6)])]},
                       "spec.replicatedJobs[0].dependsOn", TOO_MANY.format(6, 5)),
    "order-and-depends-on": ({"startupPolicy": {"startupPolicyOrder": "InOrder"},
                              "replicatedJobs": [replicated(), replicated(name="x", dependsOn=[])]}, "spec",
                             "Invalid value: StartupPolicy and DependsOn APIs are mutually exclusive"),
    "stages-and-in-order": ({"executionPolicy": IN_ORDER, "startupPolicy": {"startupPolicyOrder": "InOrder"}}, "spec",
                            f"Invalid value: {STAGES_OR_STARTUP}"),
    "stages-and-depends-on": ({"executionPolicy": IN_ORDER,
                               "replicatedJobs": [replicated(), replicated(name="x", dependsOn=[])]}, "spec",
                              f"Invalid value: {STAGES_OR_DEPENDS_ON}"),
    "stage-failed": ({"executionPolicy": {"replicatedJobsStatus": "Failed"}},
                     "spec.executionPolicy.replicatedJobsStatus", f'Invalid value: "Failed": {NOT_FAILED}'),
    "stage-suspended": ({"executionPolicy": {"replicatedJobsStatus": "Suspended"}},
                        "spec.executionPolicy.replicatedJobsStatus", f'Invalid value: "Suspended": {NOT_SUSPENDED}'),
    "stage-of-another-word": ({"executionPolicy": {"replicatedJobsStatus": "Done"}},
                              "spec.executionPolicy.replicatedJobsStatus",
                              'Invalid value: "Done": must be Succeeded, Ready or Active'),
    "stage-order": ({"executionPolicy": {"executionPolicyOrder": "Sorted"}}, "spec.executionPolicy.executionPolicyOrder",
                    'Unsupported value: "Sorted": supported values: "AnyOrder", "InOrder"'),
    "stages-none": ({"executionPolicy": {"sequentialReplicatedJobs": 0}}, "spec.executionPolicy.sequentialReplicatedJobs",
                    BELOW_1.format("spec.executionPolicy.sequentialReplicatedJobs")),
    "share-and-any": ({"successPolicy": {"operator": "Any", "minSucceeded": "50%"}}, "spec.successPolicy",
                      f"Invalid value: {ANY_WITH_SHARE}"),
    "share-without-operator": ({"successPolicy": {"minSucceeded": 1}}, "spec.successPolicy.operator", "Required value"),
    "policy-of-both": ({"scheduling": {"schedulingPolicy": {"basic": {}, "gang": {}}}}, "spec.scheduling.schedulingPolicy",
                       f"Invalid value: {ONE_POLICY}"),
    "policy-of-none": (entry(schedulingPolicy={}), f"{ENTRY}.schedulingPolicy", f"Invalid value: {ONE_POLICY}"),
    "policy-of-jobs": (entry(job={"schedulingPolicy": {}}), f"{ENTRY}.job.schedulingPolicy",
                       f"Invalid value: {ONE_POLICY}"),
    "mode-of-both": (entry(disruptionMode={"all": {}, "single": {}}), f"{ENTRY}.disruptionMode",
                     f"Invalid value: {ONE_MODE}"),
    "mode-of-none": (entry(job={"disruptionMode": {}}), f"{ENTRY}.job.disruptionMode", f"Invalid value: {ONE_MODE}"),
    "claim-of-none": (entry(resourceClaims=[{"name": "a"}]), f"{ENTRY}.resourceClaims[0]",
                      f"Invalid value: {ONE_SOURCE}"),
    "claim-of-both": (entry(job={"resourceClaims": [{"name": "a", "resourceClaimName": "a",
                                                     "resourceClaimTemplateName": "a"}]}),
                      f"{ENTRY}.job.resourceClaims[0]", f"Invalid value: {ONE_SOURCE}"),
    "min-count-0": (entry(job={"schedulingPolicy": {"gang": {"minCount": 0}}}),
                    f"{ENTRY}.job.schedulingPolicy.gang.minCount",
                    BELOW_1.format(f"{ENTRY}.job.schedulingPolicy.gang.minCount")),
    "target-twice": (entry(targetReplicatedJobs=["a", "a"]), f"{ENTRY}.targetReplicatedJobs[1]", 'Duplicate value: "a"'),
    "unit": ({"successPolicy": {"operator": "All", "unit": "Node"}}, "spec.successPolicy.unit",
             'Unsupported value: "Node": supported values: "Job", "Pod"'),
    "fail-on": ({"failurePolicy": {"failOn": "Failed"}}, "spec.failurePolicy.failOn",
                'Unsupported value: "Failed": supported values: "JobFailed", "FailureTarget"'),
    "exit-code-0": ({"failurePolicy": {"rules": [RULE | {"onExitCodes": {"operator": "In", "values": [0]}}]}},
                    "spec.failurePolicy.rules[0].onExitCodes.values[0]",
                    BELOW_1.format("spec.failurePolicy.rules[0].onExitCodes.values[0]")),
    "exit-code-twice": ({"replicatedJobs": [replicated(exitCodePolicy={"permanent": [3, 3]})]},
                        "spec.replicatedJobs[0].exitCodePolicy.permanent[1]", "Duplicate value: 3"),
    "container-name": ({"replicatedJobs": [replicated(template={"spec": {"template": {"spec": {"containers": [{}]}}}})]},
                       "spec.replicatedJobs[0].template.spec.template.spec.containers[0].name", "Required value"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_exact_message(jobset, case):
    change, field, message = REFUSED[case]
    causes = [c for c in jobset.refusal(spec(**change)) if "some validation rules were not checked" not in c[1]]
    assert causes == [(field, message)]


def test_a_quantity_that_is_none_is_refused(jobset):
    given = spec()
    container = given["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": "1GB"}}
    (cause,) = [c for c in jobset.refusal(given) if "not checked" not in c[1]]
    assert cause[0].endswith("containers[0].resources.limits.memory")
    assert "should match" in cause[1]


def test_in_order_alone_and_depends_on_alone_are_accepted(jobset):
    stored = jobset.stored(spec(startupPolicy={"startupPolicyOrder": "InOrder"}))
    assert stored["spec"]["startupPolicy"] == {"startupPolicyOrder": "InOrder"}


def test_in_order_without_replicated_jobs_is_accepted(jobset):
    jobset.stored({"startupPolicy": {"startupPolicyOrder": "InOrder"}})


def test_stages_are_accepted_beside_what_says_no_order_and_get_their_defaults(jobset):
    given = spec(executionPolicy=IN_ORDER, startupPolicy={"startupPolicyOrder": "AnyOrder"})
    stored = jobset.stored(given)["spec"]
    assert stored["executionPolicy"] == IN_ORDER | {"replicatedJobsStatus": "Succeeded"}


def test_an_execution_policy_that_says_nothing_is_no_order(jobset):
    more = {"executionPolicy": {}, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    stored = jobset.stored(spec(**more))["spec"]["executionPolicy"]
    assert stored == {"executionPolicyOrder": "AnyOrder", "replicatedJobsStatus": "Succeeded"}


CHANGES = {
    "executionPolicy": (IN_ORDER, IN_ORDER | {"replicatedJobsStatus": "Ready"}),
    "network": ({"subdomain": "a"}, {"subdomain": "b"}),
    "successPolicy": ({"operator": "All"}, {"operator": "Any"}),
    "failurePolicy": ({"maxRestarts": 1}, {"maxRestarts": 2}),
    "startupPolicy": ({"startupPolicyOrder": "AnyOrder"}, {"startupPolicyOrder": "InOrder"}),
    "volumeClaimPolicies": ([{"templates": [CLAIM]}], [{"templates": [CLAIM | {"spec": {}}]}]),
}


@pytest.mark.parametrize("field", CHANGES)
def test_immutable_once_set(jobset, field):
    before, after = CHANGES[field]
    jobset.stored(spec(**{field: before}))
    assert jobset.refusal({field: after}, method="PATCH") == [(f"spec.{field}", "Invalid value: Value is immutable")]
    jobset.stored({field: before, "suspend": True}, method="PATCH")


def test_depends_on_is_immutable(jobset):
    def jobs(status):
        return [replicated(name="a"), replicated(dependsOn=[{"name": "a", "status": status}])]

    jobset.stored({"replicatedJobs": jobs("Ready")})
    assert jobset.refusal({"replicatedJobs": jobs("Complete")}, method="PATCH") == [
        ("spec.replicatedJobs[1].dependsOn", "Invalid value: Value is immutable")
    ]


def test_unknown_fields_are_refused_when_strict_and_pruned_otherwise(jobset):
    given = spec(surprise=1)
    given["replicatedJobs"][0]["template"]["metadata"] = {"labels": {"a": "b"}, "generateName": "x-", "uid": "u"}
    given["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["surprise"] = True
    status, answer = jobset.send(given)
    assert status == 400
    for path in ("spec.surprise", "template.metadata.generateName", "template.spec.template.spec.surprise"):
        assert f'{path}"' in answer["message"]
    stored = jobset.stored(given, query="fieldValidation=Ignore")["spec"]
    assert stored["replicatedJobs"][0]["template"]["metadata"] == {"labels": {"a": "b"}}
    assert "surprise" not in json.dumps(stored)


def test_a_value_that_only_a_newer_kubernetes_knows_reaches_the_store(jobset):
    given = spec()
    given["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["dnsPolicy"] = "FromTheFuture"
    stored = jobset.stored(given)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert stored["dnsPolicy"] == "FromTheFuture"


def test_a_real_manifest_comes_back_as_it_went_in(server, jobset):
    given = yaml.safe_load(TRAINING.read_text())["spec"]
    assert jobset.stored(given)["spec"] == given


def test_the_same_templates_are_taken_by_the_job_api(server):
    for entry in yaml.safe_load(TRAINING.read_text())["spec"]["replicatedJobs"]:
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": entry["name"]},
            "spec": entry["template"]["spec"],
        }
        status, answer = request(server, "POST", f"/apis/batch/v1/namespaces/default/jobs?dryRun=All&{STRICT}", job)
        assert status == 201, answer["message"]


class Everything:
    """One value for every field of a type of the server's own OpenAPI, so that a missing one is found out."""

    def __init__(self, server):
        self.schemas = {}
        for path in ("/openapi/v3/api/v1", "/openapi/v3/apis/batch/v1"):
            self.schemas |= request(server, "GET", path)[1]["components"]["schemas"]

    def of(self, name):
        if name.endswith("meta.v1.ObjectMeta"):
            return {
                "name": "n",
                "namespace": "",
                "labels": {"k": "v"},
                "annotations": {"k": "v"},
                "finalizers": ["f/f"],
            }
        if name.endswith(("Quantity", "IntOrString")):
            return "1"
        return self.value(self.schemas[name])

    def value(self, schema):
        if (refs := [schema, *schema.get("allOf", [])]) and (
            ref := next((r["$ref"] for r in refs if "$ref" in r), None)
        ):
            return self.of(ref.rsplit("/", 1)[1])
        if schema["type"] == "object":
            values = {k: self.value(v) for k, v in schema.get("properties", {}).items()}
            return values | (
                {"k": self.value(schema["additionalProperties"])} if "additionalProperties" in schema else {}
            )
        if schema["type"] == "array":
            return [self.value(schema["items"])]
        if schema.get("format") == "date-time":
            return "2026-01-01T00:00:00Z"
        return {"string": schema.get("enum", ["s"])[0], "integer": 1, "number": 1, "boolean": True}[schema["type"]]


def test_every_field_that_the_server_knows_survives(server, jobset):
    everything = Everything(server)
    given = {
        "replicatedJobs": [
            {"name": "w", "groupName": "g", "replicas": 1, "template": everything.of(embedded.ROOTS["JobTemplateSpec"])}
        ],
        "volumeClaimPolicies": [{"templates": [everything.of(embedded.ROOTS["PersistentVolumeClaim"])]}],
    }
    assert len(json.dumps(given)) > 15_000
    assert jobset.stored(copy.deepcopy(given))["spec"] == given


def test_the_committed_types_are_those_of_this_server(server):
    live = embedded.trim(Everything(server).schemas)
    assert json.loads(embedded.DATA.read_text())["definitions"] == live


CONDITION = {
    "type": "Completed",
    "status": "True",
    "reason": "AllJobsCompleted",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
COUNTS = {"name": "w", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}


def patch_status(sender, status):
    return request(sender.server, "PATCH", f"{sender.path}/status", {"status": status}, "application/merge-patch+json")


def test_status_is_a_subresource_and_keeps_zeros(jobset):
    assert "status" not in jobset.stored(spec(), status={"restarts": 3})
    given = {
        "conditions": [CONDITION | {"observedGeneration": 1}],
        "restarts": 0,
        "restartsCountTowardsMax": 0,
        "terminalState": "Completed",
        "replicatedJobsStatus": [
            COUNTS | {"jobRestarts": [0, 2], "jobRestartsCountTowardsMax": [0, 1], "released": False, "remaining": 0}
        ],
        "currentStage": "w (1/2)",
        "failurePolicyRestarts": [{"name": "r", "restarts": 0}],
        "previousInPlaceRestartAttempt": 0,
        "currentInPlaceRestartAttempt": 1,
    }
    status, answer = patch_status(jobset, given)
    assert status == 200, answer
    assert answer["status"] == given


@pytest.mark.parametrize(
    ("status", "field", "message"),
    [
        *(({"replicatedJobsStatus": [{k: v for k, v in COUNTS.items() if k != name}]},
           f"status.replicatedJobsStatus[0].{name}", "Required value") for name in COUNTS if name != "name"),
        *(({"conditions": [{k: v for k, v in CONDITION.items() if k != name}]},
           f"status.conditions[0].{name}", "Required value") for name in CONDITION if name != "type"),
        ({"conditions": [CONDITION | {"status": "Yes"}]}, "status.conditions[0].status",
         'Unsupported value: "Yes": supported values: "True", "False", "Unknown"'),
        ({"currentInPlaceRestartAttempt": -1}, "status.currentInPlaceRestartAttempt",
         "Invalid value: -1: currentInPlaceRestartAttempt in body should be greater than or equal to 0"),
        ({"replicatedJobsStatus": [COUNTS | {"jobRestarts": [0] * 1025}]}, "status.replicatedJobsStatus[0].jobRestarts",
         TOO_MANY.format(1025, 1024)),
    ],
)  # fmt: skip
def test_status_refused(jobset, status, field, message):
    jobset.stored(spec())
    code, answer = patch_status(jobset, status)
    assert code == 422
    causes = [(c["field"], c["message"]) for c in answer["details"]["causes"] if "not checked" not in c["message"]]
    assert causes == [(field, message)]


def test_columns_of_get(server, jobset):
    jobset.stored(spec(suspend=False))
    status = {"restarts": 2, "terminalState": "Completed", "currentStage": "trainer (2/3)"}
    assert patch_status(jobset, status | {"conditions": [CONDITION]})[0] == 200
    header, row = kubectl(server, "get", "jobsets", jobset.name, namespace="default").splitlines()
    assert header.split() == ["NAME", "TERMINALSTATE", "RESTARTS", "COMPLETED", "SUSPENDED", "AGE", "STAGE"]
    assert row.split()[:5] == [jobset.name, "Completed", "2", "True", "false"]
    assert row.endswith("   trainer (2/3)")


def test_explain(server):
    """The server publishes a new CRD's documentation a moment after it serves the CRD."""

    def explained(path, text):
        return wait_for(lambda: text in kubectl(server, "explain", f"jobset.spec.{path}", check=False), what=text)

    explained("failurePolicy.maxRestarts", "Restarts of the set that count, before it is Failed.")
    explained("replicatedJobs.template.spec.template.spec.containers.ports", "protocol")


def test_server_side_apply_again_changes_nothing(server, tmp_path):
    name = "training"
    for _ in range(3):
        kubectl(server, "apply", "--server-side", "-f", str(TRAINING), namespace="default")
    stored = request(server, "GET", f"{JOBSETS}/{name}")[1]
    assert stored["metadata"]["generation"] == 1
    request(server, "DELETE", f"{JOBSETS}/{name}")
