"""What the API server refuses about child objects reaches the client through our webhook."""

from tests.support.cluster.dry_run import POD, container, pod
from tests.support.cluster.requests import request
from tests.support.objects.jobsets import jobset, rjob


async def test_a_refused_child_is_a_cause_with_its_place_in_the_jobset(server, ns):
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{ns}/jobsets"
    bad = jobset(rjob(pod=pod(container(image=""), restartPolicy="Always")), namespace=ns, managedBy=None)
    bad["metadata"] = {"generateName": "train-", "namespace": ns}
    status, body = request(server, "POST", path, bad)
    assert status == 422, body
    assert {cause["field"] for cause in body["details"]["causes"]} == {
        f"{POD}.containers[0].image",
        f"{POD}.restartPolicy",
    }
    assert request(server, "POST", path, jobset(namespace=ns))[0] == 201


async def test_a_resume_with_a_bad_template_is_refused_and_stays_suspended(server, ns):
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{ns}/jobsets"
    status, js = request(server, "POST", path, jobset(namespace=ns, suspend=True))
    assert status == 201, js
    template = js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["spec"]["tolerations"] = [{"key": "k", "operator": "Exits"}]
    js["spec"]["suspend"] = False
    status, body = request(server, "PUT", f"{path}/train", js)
    assert status == 422, body
    [cause] = body["details"]["causes"]
    assert cause["field"] == f"{POD}.tolerations[0].operator"
    assert cause["message"].endswith('did you mean "Exists"?')
    template["spec"]["tolerations"][0]["operator"] = "Exists"
    assert request(server, "PUT", f"{path}/train", js)[0] == 200
