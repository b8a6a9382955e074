"""Runs the tests of suites on a local API server with the manager's webhooks, for `jobset policy test --server`.

One API server and one manager serve all suites. The manager never acquires the lease, so it only serves admission.
The tests of a suite form rounds: a round has tests that the API server can judge at the same time.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from api.features import GATES, FeatureGates
from app.settings import LeaderElectionSettings
from authoring.checks import CheckError
from authoring.suite_server import Server
from authoring.suites import LoadedSuite
from cli import extras, session
from cli.check.local_server import local_cluster
from dev import local
from dev.cluster.cluster import Cluster
from dev.cluster.progress import Report, step
from dev.cluster.spec import ClusterSpec
from kube.errors import KubeError
from kube.model.field import Path as FieldPath
from kube.model.meta import JSON
from kube.resources import LEASES
from manifests import NAMESPACE
from policy.kinds import GATE
from policy.suites import probes
from policy.suites.answers import Answer, differences, interpret, other_refusals
from policy.suites.judge import Result, compare
from policy.suites.rounds import rounds

CLUSTER_SPEC = ClusterSpec(name="policy-test", profile="api")
JudgedSuites = Sequence[tuple[LoadedSuite, list[Result]]]


def judge_online(suites: JudgedSuites, gates: FeatureGates) -> list[list[Result]]:
    """The results of all tests, by suite. Tests that an API server can judge have its verdict.

    Raises `CheckError` if the API server cannot be started or does not answer.
    """
    with _run_servers(gates) as cluster:
        try:
            return asyncio.run(_judge_suites(suites, cluster.kubeconfig, cluster.audit_log))
        except (KubeError, TimeoutError) as error:
            raise CheckError(f"the local API server: {str(error) or 'no answer in time'}") from error


@contextlib.contextmanager
def _run_servers(gates: FeatureGates) -> Iterator[Cluster]:
    """An API server and a manager that run for the length of the block."""
    if missing := extras.missing_module():
        raise CheckError(f"--server starts the manager, and {missing} is not installed: install {extras.EXTRA}")
    feature_gates = {name: gates[name] for name, gate in GATES.items() if not gate.locked} | {GATE: True}

    def prepare(cluster: Cluster, folder: Path, stack: contextlib.ExitStack) -> None:
        port = local.free_port()
        local.install(cluster, webhook_port=port)
        local.install_policies(cluster, webhook_port=port)
        local.kubectl(cluster, "create", "-f", "-", stdin=json.dumps(_foreign_lease()))
        manager = local.start(cluster, folder / "manager", webhook_port=port, sections={"featureGates": feature_gates})
        stack.callback(local.stop, manager)

    with local_cluster("--server", CLUSTER_SPEC, " and the manager", prepare) as cluster:
        yield cluster


def _foreign_lease() -> JSON:
    """The manager's lease with a holder that does not exist, for a day, so that the manager reconciles no JobSets."""
    spec = {"holderIdentity": probes.NAME, "leaseDurationSeconds": 86400}
    metadata = {"name": LeaderElectionSettings().resource_name, "namespace": NAMESPACE}
    return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}


async def _judge_suites(suites: JudgedSuites, kubeconfig: Path, audit_log: Path) -> list[list[Result]]:
    test_count = sum(result.is_askable for _, results in suites for result in results)
    async with session.connect(session.ClusterFlags(kubeconfig=str(kubeconfig))) as connection:
        server = Server(connection.client.without_limits(), audit_log)
        await server.prepare()
        with step(f"asking it about {test_count} JobSets") as report:
            return [
                await _judge_suite_online(server, loaded, results, report, test_count) for loaded, results in suites
            ]


async def _judge_suite_online(
    server: Server, loaded: LoadedSuite, results: list[Result], report: Report, test_count: int
) -> list[Result]:
    final_results = list(results)
    await server.delete_policies()
    for round_ in rounds(loaded, [number for number, result in enumerate(results) if result.is_askable]):
        await server.store_round(loaded, round_)
        answers = await server.send_tests(loaded, round_.test_indexes, lambda done: report(f"{done} of {test_count}"))
        for number, answer in answers.items():
            final_results[number] = _with_answer(loaded, number, results[number], answer)
    return final_results


def _with_answer(loaded: LoadedSuite, number: int, result: Result, answer: Answer) -> Result:
    """The result of a test, to which differences from the answer of the API server are added as failures.

    If only the API server can judge the test, its verdict is the result.
    """
    test, path = loaded.suite.tests[number], FieldPath(("tests", number))
    interpretation = interpret(answer, loaded.policies, update=bool(test.old_jobset))
    refusal_failures = list(other_refusals(interpretation, path.at("jobset"), test.jobset))
    if result.verdict is None:
        return Result(
            test.name, (*compare(interpretation.verdict, test, path), *refusal_failures), interpretation.verdict
        )
    new_failures = [*differences(result.verdict, answer, interpretation, path, test.name), *refusal_failures]
    return replace(result, failures=(*result.failures, *new_failures), is_different=bool(new_failures))
