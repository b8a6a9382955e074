"""What the API server refuses about child objects reaches the client through our webhook."""

from tests.support.cluster.dry_run import POD
from tests.support.cluster.requests import request
from tests.support.objects.jobsets import jobset


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
