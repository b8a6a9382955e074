"""How many calls a review of a sound JobSet makes. Variables without references and addresses cost none."""

from api.keys import QUEUE_NAME
from tests.support.model.walk import walk
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.reviews import encode, review
from tests.webhooks.test_review_cost import HANDLERS
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH
from webhooks.review import answer_of, decode_review


async def calls(replicated_jobs: int, variables: int, path: str = VALIDATE_PATH, *, update: bool = False) -> int:
    """The calls of one review of ReplicatedJobs whose pods have this number of variables, in a set in a queue.

    `update`: the review of its resumption.
    """
    env = [{"name": f"NAME_{number}", "value": "text"} for number in range(variables)]
    pod = {"containers": [{"name": "main", "image": "busybox", "command": ["run"], "env": env}]}
    js = jobset(*(rjob(f"workers-{number}", pod=pod) for number in range(replicated_jobs)))
    js["metadata"]["labels"] = {QUEUE_NAME: "queue"}
    js = js if path == MUTATE_PATH else stored(js)
    old = {**js, "spec": {**js["spec"], "suspend": True}} if update else None
    request = decode_review(encode(review(js, old))).request
    reviewed = await walk(lambda: answer_of(HANDLERS[path](request)), "api/", "kube/", "policy/", "webhooks/")
    assert (await answer_of(HANDLERS[path](request))).allowed
    return reviewed.calls


async def test_a_review_makes_few_calls_and_none_of_them_for_plain_variables_alone():
    await calls(1, 1)  # what the first review caches
    small, large, many_variables = await calls(1, 1), await calls(8, 1), await calls(8, 40)
    assert small <= 290, small
    assert (large - small) / 7 <= 125, large
    assert many_variables - large == 0, many_variables


async def test_defaults_cost_few_calls_for_each_replicated_job():
    await calls(1, 1, MUTATE_PATH)
    small, large = await calls(1, 1, MUTATE_PATH), await calls(8, 40, MUTATE_PATH)
    assert small <= 190, small
    assert (large - small) / 7 <= 61, large


async def test_a_resumption_costs_few_calls_whatever_its_templates_have():
    await calls(1, 1, update=True)
    small, large = await calls(1, 1, update=True), await calls(8, 1, update=True)
    many_variables = await calls(8, 40, update=True)
    assert small <= 350, small
    assert (large - small) / 7 <= 98, large
    assert many_variables - large == 0, many_variables
