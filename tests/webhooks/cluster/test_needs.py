"""What pods need by name in the cluster or in their namespace: admission warns if there is none."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from api.keys import EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY, QUEUE_NAME
from kube.errors import TransportError
from kube.model.field import FieldError
from kube.options import METADATA
from kube.resources import CONFIG_MAPS, SECRETS
from kube.transport import Request, Response
from policy.recorded import ANNOTATION
from tests.support.model.scripted_server import GATES, MOUNT, Script, checks, claims, create, plural
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from webhooks.jobset.answers import MAX_WARNING_LENGTH, warning_texts
from webhooks.jobset.cluster.checks import INCOMPLETE
from webhooks.jobset.cluster.needs import CLAIM, CONFIG_MAP, SECONDS_IF_EXISTING, SECONDS_IF_MISSING, SECRET
from webhooks.jobset.cluster.questions import MAX_REQUESTS

pytestmark = pytest.mark.looptime

CLASS = {"priorityClassName": "high"}
VOLUME_OF_ITS_OWN = {"volumes": [{"name": "own", "persistentVolumeClaim": {"claimName": "data-train"}}]}
RACK = "example.com/rack"
POD = "spec.replicatedJobs[0].template.spec.template"
LOOK_UPS = {"get configmaps", "get secrets"}


class Cluster(Script):
    """Has the given PriorityClasses, and one node with the given labels."""

    def __init__(self, *, classes: tuple[str, ...] = (), labels: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.classes, self.labels = classes, labels
        self.asked_for: list[str] = []

    async def send(self, request: Request) -> Response:
        kind, _, name = request.path.removeprefix("/apis/scheduling.k8s.io/v1/").removeprefix("/api/v1/").partition("/")
        if kind == "priorityclasses" and not name:
            items = [{"metadata": {"name": name}} for name in self.classes]
            return Response(200, {}, msgspec.json.encode({"metadata": {}, "items": items}))
        if kind == "priorityclasses":
            self.asked_for.append(name)
            there = name in self.classes
            body: JSON = {"kind": "PriorityClass"} if there else {"kind": "Status", "code": 404, "reason": "NotFound"}
            return Response(200 if there else 404, {}, msgspec.json.encode(body))
        if kind == "nodes":
            query = dict(request.query)
            assert query["limit"] == "1"
            self.asked_for.append(query["labelSelector"])
            nodes = [{"metadata": {"name": "n"}}] if query["labelSelector"] in self.labels else []
            return Response(200, {}, msgspec.json.encode({"metadata": {}, "items": nodes}))
        return await super().send(request)


class Away(Cluster):
    async def send(self, request: Request) -> Response:
        if "priorityclasses" in request.path:
            raise TransportError("no route", sent=False)
        return await super().send(request)


def exclusive(js: JSON, level: str = "js", **more: str) -> JSON:
    template = js["spec"]["replicatedJobs"][0]["template"]
    holder = {"js": js, "job": template, "pod": template["spec"]["template"]}[level]
    holder["metadata"] = {**holder.get("metadata", {}), "annotations": {EXCLUSIVE_TOPOLOGY: RACK, **more}}
    return js


def labelled(js: JSON, **labels: str) -> JSON:
    js["metadata"]["labels"] = labels
    return js


async def asked(server: Script, js: JSON) -> list[FieldError]:
    return await checks(server).findings_about_new(stored(js), (), GATES, namespace="default")


async def test_a_priority_class_that_does_not_exist():
    text = f"{POD}.spec.priorityClassName: no PriorityClass high: no pod runs; create it"
    assert warning_texts(await asked(Cluster(), jobset(rjob(pod=CLASS)))) == (f"{text} [priority-class-missing]",)
    assert await asked(Cluster(classes=("high",)), jobset(rjob(pod=CLASS))) == []
    meant = warning_texts(await asked(Cluster(classes=("low", "hihg")), jobset(rjob(pod=CLASS))))
    assert meant == (f"{text}, or did you mean hihg? [priority-class-missing]",)


async def test_a_priority_class_of_a_policy_is_told_to_be_one():
    js = jobset(rjob(pod=CLASS))
    for said, told in (
        ('{"base": ["priorityClassName"]}', "create it; policy base has set it"),
        ('{"base": ["nodeSelector[a]"], "B\\n": ["priorityClassName"]}', "create it"),
        ("no JSON", "create it"),
    ):
        js["metadata"]["annotations"] = {ANNOTATION: said}
        (text,) = warning_texts(await asked(Cluster(), js))
        assert text.rpartition("no pod runs; ")[2] == f"{told} [priority-class-missing]"


OF_POD = f"{POD}.spec"
CLAIM_TEMPLATE = "spec.volumeClaimPolicies[0].templates[0].spec"
OF_CLAIM = "ephemeral.volumeClaimTemplate.spec.storageClassName"
EPHEMERAL = {"volumes": [{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}]}
VOLUME = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}


@pytest.mark.parametrize(
    ("js", "question", "words"),
    [
        (
            jobset(rjob(pod={"serviceAccountName": "trainer"})),
            "/api/v1/namespaces/default/serviceaccounts/trainer",
            f"{OF_POD}.serviceAccountName: no ServiceAccount trainer: no pod is created",
        ),
        (
            jobset(rjob(pod={"runtimeClassName": "gvisor"})),
            "/apis/node.k8s.io/v1/runtimeclasses/gvisor",
            f"{OF_POD}.runtimeClassName: no RuntimeClass gvisor: no pod is created",
        ),
        (
            jobset(rjob(pod={"nodeName": "node-9999"})),
            "/api/v1/nodes/node-9999",
            f"{OF_POD}.nodeName: no node is called node-9999: pods wait for it and are deleted",
        ),
        (
            jobset(rjob(pod=VOLUME)),
            "/api/v1/namespaces/default/persistentvolumeclaims/data",
            f"{OF_POD}.volumes[0].persistentVolumeClaim.claimName: no PersistentVolumeClaim data: pods wait for it",
        ),
        (
            jobset(rjob(pod=EPHEMERAL)),
            "/apis/storage.k8s.io/v1/storageclasses/fast",
            f"{OF_POD}.volumes[0].{OF_CLAIM}: no StorageClass fast: the claim waits for a volume of it",
        ),
        (
            jobset(rjob(pod=MOUNT), **claims(storageClassName="fast")),
            "/apis/storage.k8s.io/v1/storageclasses/fast",
            f"{CLAIM_TEMPLATE}.storageClassName: no StorageClass fast: the claim waits for a volume of it",
        ),
    ],
)
async def test_what_pods_need_by_name(js: JSON, question: str, words: str):
    script = Script()
    assert [f"{found.path}: {found.detail}" for found in await asked(script, js)] == [words]
    assert question in [request.path for request in script.requests]
    names = ("get serviceaccounts", "get node-9999", "get persistentvolumeclaims", "get gvisor", "get fast")
    there = Script(answers=dict.fromkeys(names, lambda _: Response(200, {}, b'{"metadata": {"name": "x"}}')))
    assert [found for found in await asked(there, js) if f"{found.path}: {found.detail}" == words] == []


@pytest.mark.parametrize(
    "js",
    [
        jobset(rjob(pod={"serviceAccountName": "default"})),
        jobset(rjob(pod={"volumes": [{"name": "d", "persistentVolumeClaim": None}, {"name": "e"}]})),
        jobset(rjob(pod={**MOUNT, **VOLUME_OF_ITS_OWN}), **claims()),
    ],
)
async def test_what_is_there_anyway_is_not_asked_for(js: JSON):
    script = Script()
    assert [error for error in await asked(script, js) if error.rule is CLAIM] == []
    assert not {"get serviceaccounts", "get runtimeclasses"} & set(script.asked())


def reading(**pod: object) -> JSON:
    return jobset(rjob(pod={"containers": [{"name": "main", "image": "busybox"}], **pod}))


def running(**container: object) -> JSON:
    return reading(containers=[{"name": "main", "image": "busybox", **container}])


REFERENCES = [
    (reading(volumes=[{"name": "v", "configMap": {"name": "app"}}]), "volumes[0].configMap.name", "ConfigMap"),
    (reading(volumes=[{"name": "v", "secret": {"secretName": "app"}}]), "volumes[0].secret.secretName", "Secret"),
    (
        reading(
            volumes=[
                {"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}, {"secret": {"name": "app"}}]}}
            ]
        ),
        "volumes[0].projected.sources[1].secret.name",
        "Secret",
    ),
    (
        running(env=[{"name": "A", "value": "a"}, {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "app"}}}]),
        "containers[0].env[1].valueFrom.configMapKeyRef.name",
        "ConfigMap",
    ),
    (running(envFrom=[{"secretRef": {"name": "app"}}]), "containers[0].envFrom[0].secretRef.name", "Secret"),
    (
        reading(initContainers=[{"name": "i", "image": "busybox", "envFrom": [{"configMapRef": {"name": "app"}}]}]),
        "initContainers[0].envFrom[0].configMapRef.name",
        "ConfigMap",
    ),
]


@pytest.mark.parametrize(("js", "place", "kind"), REFERENCES)
@pytest.mark.parametrize(
    "options", [{"has_author_rights": True}, {"looked_up_kinds": (CONFIG_MAPS, SECRETS)}], ids=["own", "asked"]
)
async def test_config_maps_and_secrets_are_looked_up_for_who_wants_it(js: JSON, place: str, kind: str, options: JSON):
    found = [error for error in await create(Script(), js, **options) if error.rule in {CONFIG_MAP, SECRET}]
    assert [f"{error.path}: {error.detail}" for error in found] == [
        f"{OF_POD}.{place}: no {kind} app: pods wait for it"
    ]
    there = dict.fromkeys(LOOK_UPS, lambda _: Response(200, {}, b'{"metadata": {"name": "x"}}'))
    assert [
        error for error in await create(Script(answers=there), js, **options) if error.rule in {CONFIG_MAP, SECRET}
    ] == []


@pytest.mark.parametrize("js", [js for js, _, _ in REFERENCES])
async def test_the_manager_does_not_look_into_config_maps_and_secrets(js: JSON):
    script = Script()
    await asked(script, js)
    assert not LOOK_UPS & set(script.asked())


BOTH = running(envFrom=[{"secretRef": {"name": "token"}}, {"configMapRef": {"name": "app"}}])


@pytest.mark.parametrize(
    "options", [{"has_author_rights": True}, {"looked_up_kinds": (CONFIG_MAPS, SECRETS)}], ids=["own", "asked"]
)
async def test_of_config_maps_and_secrets_the_metadata_alone_is_asked_for(options: JSON):
    script = Script()
    await create(script, BOTH, **options)
    forms = {plural(request): request.accept for request in script.requests if f"get {plural(request)}" in LOOK_UPS}
    assert forms == dict.fromkeys(("configmaps", "secrets"), METADATA)


async def test_config_maps_and_secrets_of_a_stored_set_are_not_looked_up():
    script = Script()
    old, new = (stored(reading(volumes=[{"name": "v", "secret": {"secretName": name}}])) for name in ("a", "b"))
    for js in (old, new):
        js["spec"]["suspend"] = True
    await checks(script, looked_up_kinds=(CONFIG_MAPS, SECRETS)).findings_about_update(
        old, new, (), GATES, namespace="default"
    )
    assert not LOOK_UPS & set(script.asked())
    assert script.asked().count("create jobs") == 1


async def test_many_secrets_do_not_keep_other_names_from_being_looked_up():
    secrets = [{"name": f"v{i}", "secret": {"secretName": f"s{i}"}} for i in range(9)]
    server = Cluster()
    found = await create(
        server, jobset(rjob("a", pod={"volumes": secrets}), rjob("b", pod=CLASS)), looked_up_kinds=(SECRETS,)
    )
    assert server.asked_for == ["high"]
    assert server.asked().count("get secrets") == MAX_REQUESTS * 3 // 8 - 1
    assert [error.rule for error in found].count(INCOMPLETE) == 1


async def test_a_secret_of_many_sets_costs_one_question():
    script = Script()
    asking = checks(script, looked_up_kinds=(SECRETS,))
    sets = [stored({**BOTH, "metadata": {"name": f"train-{i}"}}) for i in range(40)]
    await asyncio.gather(*(asking.findings_about_new(js, (), GATES, namespace="default") for js in sets))
    assert script.asked().count("get secrets") == 1


@pytest.mark.parametrize(
    "js",
    [
        reading(volumes=[{"name": "v", "configMap": {"name": "app", "optional": True}}]),
        running(envFrom=[{"secretRef": {"name": "app", "optional": True}}]),
        running(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    ],
)
async def test_what_is_optional_is_not_missing(js: JSON):
    script = Script()
    await create(script, js, has_author_rights=True)
    await create(script, js, looked_up_kinds=(CONFIG_MAPS, SECRETS))
    assert not LOOK_UPS & set(script.asked())


@pytest.mark.parametrize(
    ("level", "place"),
    [("js", "metadata"), ("job", "spec.replicatedJobs[0].template.metadata"), ("pod", f"{POD}.metadata")],
)
async def test_a_topology_that_no_node_has(level: str, place: str):
    [found] = await asked(Cluster(), exclusive(jobset(rjob()), level))
    assert str(found.path) == f"{place}.annotations[{EXCLUSIVE_TOPOLOGY}]"
    assert found.detail == f"no node has the label {RACK}: pods wait for one"
    assert len(warning_texts([found])[0]) <= MAX_WARNING_LENGTH
    assert await asked(Cluster(labels=(RACK,)), exclusive(jobset(rjob()), level)) == []


SELECTOR = {"nodeSelector": {"pool": "h100", "disk": ""}}


async def test_a_node_selector_that_no_node_meets():
    js = jobset(rjob("a", pod=SELECTOR), rjob("b", pod=SELECTOR))
    server = Cluster()
    assert warning_texts(await asked(server, js)) == tuple(
        f"spec.replicatedJobs[{i}].template.spec.template.spec.nodeSelector: "
        "no node has the labels disk=,pool=h100: pods wait for one; correct them, label nodes, or have an autoscaler add some"
        " [node-selector-missing]"
        for i in range(2)
    )
    assert server.asked_for == ["disk=,pool=h100"]
    assert await asked(Cluster(labels=("disk=,pool=h100",)), js) == []


async def test_a_topology_of_a_group_that_no_node_has():
    constraints = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    js = jobset(rjob(), scheduling={"schedulingPolicy": {"gang": {}}, **constraints})
    text = (
        "spec.scheduling.schedulingConstraints.topology[0].key: "
        f"no node has the label {RACK}: the group waits for one; correct it, or label nodes [scheduling-topology-no-node]"
    )
    assert text in warning_texts(await asked(Cluster(), js))
    assert text not in warning_texts(await asked(Cluster(labels=(RACK,)), js))


@pytest.mark.parametrize(
    "js",
    [
        jobset(rjob()),
        jobset(rjob(pod={"nodeSelector": None})),
        jobset(rjob(pod={"nodeSelector": {"a b": "c"}})),
        jobset(rjob(pod={"nodeSelector": {f"{i}": "v" * 60 for i in range(20)}})),
        jobset(rjob(replicas=0, pod=SELECTOR)),
        labelled(jobset(rjob(pod=SELECTOR)), **{QUEUE_NAME: "team"}),
        jobset(rjob(replicas=0, pod=CLASS)),
        jobset(rjob(pod={"priorityClassName": "../nodes"})),
        jobset(rjob(pod=CLASS), managedBy="kueue.x-k8s.io/multikueue"),
        exclusive(jobset(rjob()), **{NODE_SELECTOR_STRATEGY: "true"}),
        exclusive(jobset(rjob()), **{EXCLUSIVE_TOPOLOGY: "a b"}),
    ],
)
async def test_nothing_is_asked_where_nothing_is_needed(js: JSON):
    server = Cluster()
    await asked(server, js)
    assert server.asked_for == []


async def test_a_cluster_that_does_not_answer_refuses_nothing():
    found = await asked(Away(), jobset(rjob(pod=CLASS)))
    assert [error.rule.id for error in found if error.rule] == ["dry-run-incomplete"]


@pytest.mark.parametrize(
    ("make", "kept"), [(lambda: Cluster(classes=("high",)), SECONDS_IF_EXISTING), (Cluster, SECONDS_IF_MISSING)]
)
async def test_many_sets_cost_one_question_until_the_answer_is_old(make: Callable[[], Cluster], kept: float):
    server = make()
    asking = checks(server)
    sets = [stored(jobset(rjob(pod=CLASS), name=f"train-{i}")) for i in range(40)]
    await asyncio.gather(*(asking.findings_about_new(js, (), GATES, namespace="default") for js in sets))
    assert server.asked_for == ["high"]
    await asyncio.sleep(kept + 1)
    await asking.findings_about_new(sets[0], (), GATES, namespace="default")
    assert server.asked_for == ["high"] * 2


async def test_a_name_in_many_places_is_asked_about_once_and_reported_at_each():
    found = await asked(Cluster(), jobset(rjob("a", pod=CLASS), rjob("b", pod=CLASS), rjob("c")))
    assert [error.path.parts[2] for error in found] == [0, 1]
