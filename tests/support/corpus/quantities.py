"""What a real API server takes for an amount: asked with dry runs, and kept beside this file.

`python -m tests.support.corpus.quantities` starts an API server, asks about every case and writes the answers down.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from dev import local
from dev.cluster.cluster import Cluster, running
from dev.cluster.spec import ClusterSpec
from tests.support.cluster import requests as clusters
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import drop_namespace, new_namespace, request
from tests.support.objects.jobsets import JSON, jobset, rjob

RECORDED = Path(__file__).with_name("quantity_answers.json")
NUMBERS = ("0", "8", "0.3", ".5", "1.", "1.25", "0012", "1000", "2048", "123456789012345678", "98765432109876543.21")
UNITS = (
    "",
    *"numkMGTPE",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "Ei",
    "e3",
    "E+03",
    "e-3",
    "e-10",
    "e20",
    "e1.5",
    "i",
    "K",
    "e",
)
SIGNED = ("1", ".5", "008", "1.5Ki", "3m", "1e3", "0", "Ki", "")
ODD = (
    # Digits without end, before and behind the point.
    "0" * 65 + "8", "1000." + "0" * 65, "1" * 65, "9" * 300, "0." + "0" * 40 + "1", "1." + "0" * 40 + "1", "7" * 30 + "m",
    "0." + "0" * 65 + "Gi", "1." + "9" * 40 + "Ki", "0." + "1" * 200 + "Ei",
    # Exponents: zeros, signs, beyond 32 and 64 bits.
    "1e0003", "1e+0003", "1E03", "1e-0003", "1e" + "0" * 30 + "3", "1e000", "5e-9", "5e-11", "1e-400", "1e400", "1e999",
    "1e1200", "0e9999", "0e-9999", "15e1", "15e2", "1.5e1", "1e4294967299", "1e-4294967293", "3e8589934592",
    "1e9223372036854775808", "1e18446744073709551619", "1e" + "9" * 30, "1e3.", "1e.5", "1e1.5", "1e", "1e+", "1e3e3", "1ee3",
    # The largest and the smallest.
    "9223372036854775807", "9223372036854775808", "8Ei", "7.999Ei", "9Ei", "100Ei", "9E", "10E", "100E", "8191Pi", "1000P",
    "1n", "0.1n", "0.9u", "1.0000000001", "0.0000000001Ki", "1.00000000001Gi", "0.3Ki", "0.9Mi",
    # A unit alone, a point alone, a sign alone.
    *UNITS[1:], ".", "+", "-", ".Ki", "+.m", "-e3", ".e-10", "1.e-10", "-Ei",
    # Two of a thing, and other characters.
    "", " ", " 1", "1 ", "1 Gi", "1..5", "1.5.", "1,5", "1_000", "0x10", "0b1", "1KiB", "1MB", "1gi", "1ki", "1kk", "1Kim", "1mKi",
    "1Ki3", "1k3", "1-3", "1+", "--1", "+-1", "1e--3", "many", "NaN", "Infinity", "inf", "\u0661", "1\u00a0", "\uff11", "1\n",
    "\t1", "true", "null", "1/2", "50%",
)  # fmt: skip
LITERALS = (
    "0", "8", "-1", "1.0", "1.5", "1e3", "1E3", "1e-3", "2.5e1", "1e20", "1e21", "9007199254740993", "9223372036854775807",
    "9223372036854775808", "-0", "true", "false", "null", "[]", "{}",
)  # fmt: skip
"""JSON that is not text."""


class Answer(NamedTuple):
    """What became of a value in JSON.

    `schema`: what a JobSet with it has stored, in JSON; None where the schema of the CRD refuses it. `amount`: what a pod with
    it requests, rounded up to thousandths and written by the API server; None where a pod with it cannot be read.
    """

    schema: str | None
    amount: str | None


def cases() -> Iterator[str]:
    """Values in JSON, each once."""
    texts = [number + unit for number, unit in product(NUMBERS, UNITS)]
    texts += [sign + text for sign, text in product("+-", SIGNED)]
    yield from dict.fromkeys([*(json.dumps(text) for text in [*texts, *ODD]), *LITERALS])


def recorded() -> dict[str, Answer]:
    return {case: Answer(*answer) for case, answer in json.loads(RECORDED.read_text()).items()}


def ask_all(server: Cluster) -> dict[str, Answer]:
    namespace = new_namespace(server)
    try:
        _forbid_cpus(server, namespace)
        return {case: Answer(_schema(server, namespace, case), _amount(server, namespace, case)) for case in cases()}
    finally:
        request(server, "DELETE", f"/api/v1/namespaces/{namespace}/resourcequotas/none")
        drop_namespace(server, namespace)


def _forbid_cpus(server: Cluster, namespace: str) -> None:
    """A quota of no cpu: its refusal is a sum of amounts, which the API server writes in its own form."""
    collection, amounts = f"/api/v1/namespaces/{namespace}/resourcequotas", {"requests.cpu": "0"}
    quota: JSON = {"metadata": {"name": "none"}, "spec": {"hard": amounts}}
    status, stored = request(server, "POST", collection, quota)
    assert status == 201, stored
    stored["status"] = {"hard": amounts, "used": amounts}
    status, stored = request(server, "PUT", f"{collection}/none/status", stored)
    assert status == 200, stored


_HOLE = "an amount"


def _schema(server: Cluster, namespace: str, case: str) -> str | None:
    containers = [{"name": "main", "image": "a", "resources": {"limits": {"example.com/a": _HOLE}}}]
    js = jobset(rjob(pod={"containers": containers, "restartPolicy": "Never"}), namespace=namespace)
    answer = _dry_run(server, JOBSETS.format(namespace), js, case)
    if answer["kind"] != "JobSet":
        return None
    (main,) = answer["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    return json.dumps(main["resources"]["limits"].get("example.com/a", "absent"))


def _amount(server: Cluster, namespace: str, case: str) -> str | None:
    containers = [
        {"name": f"c{i}", "image": "a", "resources": {"requests": {"cpu": amount}}}
        for i, amount in enumerate((_HOLE, "0"))
    ]
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"containers": containers}}
    answer = _dry_run(server, f"/api/v1/namespaces/{namespace}/pods", pod, case)
    if answer["kind"] == "Pod":
        return "0"
    message = answer["message"]
    if answer["code"] == 400:
        return None
    if answer["code"] == 403:
        (amount,) = re.findall(r"requested: requests\.cpu=([^,]*),", message)
    else:
        (amount,) = re.findall(r'requests\[cpu\]: Invalid value: "([^"]*)": must be greater', message)
    return str(amount)


def _dry_run(server: Cluster, collection: str, body: JSON, case: str) -> JSON:
    sent = json.dumps(body).replace(json.dumps(_HOLE), case)
    answer: JSON = json.loads(clusters._send(server, "POST", f"{collection}?dryRun=All", sent).data)
    return answer


def record() -> None:
    """Ask an API server that serves JobSets."""
    spec = ClusterSpec(name="amounts", profile="api")
    with tempfile.TemporaryDirectory() as folder, running(spec, state_root=Path(folder)) as server:
        local.install(server, webhook_port=None)
        write(ask_all(server))


def write(answers: dict[str, Answer]) -> None:
    lines = (f"{json.dumps(case)}: {json.dumps(answer)}" for case, answer in answers.items())
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    record()
