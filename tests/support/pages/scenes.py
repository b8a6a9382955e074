"""The scenes in which the commands of the pages are run: what is there, and what a command leads to.

A scene has a namespace, which is that of the context, and a folder with `examples` and `manifests`. A command for which a
scene has no step ends with exit code 0.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import kubectl, request, wait_for
from tests.support.objects.policies import manifest as policy
from tests.support.pages.files import ROOT, yaml_blocks
from tests.support.pages.reader import Reader

TRAIN = manifest(group(replicas=4), name="train")
NODE = "node-0005"
"""A node of the cluster, for one that the pages name."""


def nothing(reader: Reader) -> None:
    """Prepare nothing."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a command leads to: its exit code, and a pattern in what it prints. `before` happens before it.

    `goes_on`: it ends by Ctrl-C, pressed when it has printed the pattern.
    """

    says: str = ""
    code: int = 0
    before: Callable[[Reader], None] = nothing
    goes_on: bool = False


@dataclass(frozen=True, kw_only=True)
class Scene:
    """`order`: commands that come first, where the page says later how to do what an earlier command needs."""

    prepare: Callable[[Reader], None] = nothing
    steps: Mapping[str, Step] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    clean: Callable[[Reader], None] = nothing

    def step(self, command: str) -> Step:
        """The step of a command."""
        return next((step for start, step in self.steps.items() if command.startswith(start)), Step())


def sets(reader: Reader) -> Sets:
    """The JobSets of the reader."""
    return Sets(reader.cluster, reader.namespace)


def train(reader: Reader) -> None:
    """A JobSet `train` that runs."""
    sets(reader).apply(TRAIN)
    sets(reader).wait_ready(4, "train")


def completed(reader: Reader) -> None:
    """The pods of `train` end."""
    for pod in sets(reader).pods("", "train"):
        sets(reader).end(pod)


def again(reader: Reader) -> None:
    """Another `train` that runs, where the one before has completed."""
    kubectl(reader.cluster, "delete", "jobset", "train", "--cascade=foreground", namespace=reader.namespace)
    train(reader)


def waiting(reader: Reader) -> None:
    """`train`, of which two of four Jobs find no rack."""
    body = manifest(group(replicas=4), name="train")
    body["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    sets(reader).apply(body)
    sets(reader).wait_ready(2, "train")


def training(reader: Reader) -> None:
    """The JobSet of the demo, which has completed."""
    kubectl(reader.cluster, "apply", "-f", str(ROOT / "examples/training.yaml"), namespace=reader.namespace)
    sets(reader).wait_ready(3, "training")
    for pod in sets(reader).pods("", "training"):
        sets(reader).end(pod)
    sets(reader).wait_state("Completed", "training")


def files(reader: Reader) -> None:
    """What the pages call the reader's own files: they are good."""
    good = (ROOT / "examples/training.yaml").read_text(encoding="utf-8")
    for name in ("jobset.yaml", "a.yaml", "b.yaml", "deploy/jobset.yaml", "training.yaml"):
        reader.write(name, good)
    reader.write("manager.yaml", "apiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n")


def pytorch(reader: Reader) -> None:
    """The PyTorchJob of the page."""
    reader.write("pytorchjob.yaml", yaml_blocks(ROOT / "docs/migrate.md")[0])


def allowed(reader: Reader) -> None:
    """The files, and a policy that allows them."""
    files(reader)
    reader.write("policies/limits.json", json.dumps(policy(maxJobs={"max": 3})))


def tenant(reader: Reader) -> None:
    """The files, and the policy of the page, which is about namespaces with a label."""
    files(reader)
    [text] = [text for text in yaml_blocks(ROOT / "docs/policy/README.md") if "name: tenants" in text]
    reader.write("policies/tenants.yaml", text)


def kyverno(reader: Reader) -> None:
    """The files, and the policy of the page."""
    files(reader)
    reader.write("policies/jobsets.yaml", yaml_blocks(ROOT / "docs/policy/from-kyverno.md")[1])


def stored(reader: Reader) -> None:
    """The same, with that label, and the policy stored."""
    tenant(reader)
    train(reader)
    label = "example.com/tenant=true"
    kubectl(reader.cluster, "label", "namespace", reader.namespace, label)
    kubectl(reader.cluster, "apply", "-f", str(reader.folder / "policies"))


def audited(reader: Reader) -> None:
    """The same, after an audit."""
    stored(reader)
    path = "/apis/policy.jobset.x-k8s.io/v1alpha1/jobsetpolicies/tenants"
    wait_for(lambda: "audit" in request(reader.cluster, "GET", path)[1].get("status", {}), what="the audit")


def in_force(reader: Reader) -> None:
    """The policy of the page is in force, on which a dry run finds something."""
    body = manifest(group(replicas=9))
    words = ("create", "--dry-run=server", "-f", "-")

    def warned() -> bool:
        return "Warning" in kubectl(
            reader.cluster, *words, namespace=reader.namespace, stdin=json.dumps(body), check=False
        )

    wait_for(warned, what="the policy to be in force")


def without_policies(reader: Reader) -> None:
    kubectl(reader.cluster, "delete", "jobsetpolicies", "--all")


def without_exported(reader: Reader) -> None:
    code, text = reader.run("jobset policy export -p policies/ | kubectl delete -f -")
    assert code == 0, text


def untainted(reader: Reader) -> None:
    kubectl(reader.cluster, "taint", "nodes", NODE, "node.kubernetes.io/out-of-service-")


def tainted(reader: Reader) -> None:
    """A set with a pod on the node, which the taint ends."""
    body: dict[str, Any] = manifest(group(replicas=1, pod={"nodeSelector": {"kubernetes.io/hostname": NODE}}))
    sets(reader).apply(body)
    sets(reader).wait_ready(1)


def unbound(reader: Reader) -> None:
    kubectl(reader.cluster, "delete", "clusterrolebinding", "debug-jobset")
    kubectl(reader.cluster, "delete", "serviceaccount", "debugger", namespace="jobset-system")


def fishy(reader: Reader) -> None:
    """A JobSet, and the folders that fish makes."""
    train(reader)
    (reader.folder / ".config/fish/completions").mkdir(parents=True)


def without_defaults(reader: Reader) -> None:
    """A JobSet that was let in while the webhooks were off, as if it was `train`."""
    for verb in ("off", "on"):
        code, text = reader.run(f"jobset webhooks {verb}")
        assert code == 0, text
        if verb == "off":
            wait_for(lambda: not _has_default(reader), what="a JobSet without defaults")


def _has_default(reader: Reader) -> bool:
    kubectl(reader.cluster, "delete", "jobset", "train", "--ignore-not-found", namespace=reader.namespace)
    sets(reader).apply(TRAIN)
    return "network" in (sets(reader).get("train") or {})["spec"]


def granted(reader: Reader) -> None:
    """The API server knows of the binding: its authorizer follows with a delay."""
    asked = ("auth", "can-i", "create", "jobsets", "--as=alice")
    wait_for(lambda: "yes" in kubectl(reader.cluster, *asked, namespace=reader.namespace, check=False).split())


SCENES: dict[str, Scene] = {
    "docs/break-glass.md": Scene(
        names={"NAME": "train"},
        steps={
            "jobset webhooks off": Step(says="off"),
            "jobset webhooks status": Step(says="off", code=1),
            "jobset webhooks on": Step(says="on"),
            "kubectl get jobset": Step(before=without_defaults, says="replaced"),
        },
    ),
    "docs/certificates.md": Scene(
        steps={
            "jobset certs status": Step(
                says=r"Secret jobset-system/jobset-webhook-server-cert, renewed by the manager\n\n"
                r"CERTIFICATE +KEY +FROM +UNTIL +DAYS LEFT +RENEWAL +ISSUER +NAMES\nserving +ECDSA P-256(.|\n)*"
                r"\nCA +ECDSA P-256 .* CN=jobset-ca,O=jobset +jobset-ca\n\nCALLED BY +WEBHOOK +AS +CABUNDLE WRITTEN BY +"
                r"CERTIFICATE\nMutatingWebhookConfiguration jobset-mutating-webhook-configuration +mjobset.kb.io +\S+ +"
                r"the manager +trusted\n(.|\n)*\nconversion of the CRD: None"
            ),
            "kubectl patch secret": Step(says="secret/jobset-webhook-server-cert patched"),
        },
    ),
    "docs/checkpoints.md": Scene(
        prepare=train,
        steps={"jobset validate": Step(says="0 errors, 0 warnings"), "jobset logs": Step(says="hello from train")},
    ),
    "docs/cli.md": Scene(
        prepare=fishy,
        steps={
            "jobset logs train --job": Step(says=r"^\[train-workers-3/0 main\] hello"),
            "jobset logs train": Step(says=r"\[train-workers-0/0 main\] hello"),
            "jobset wait train --for=ready": Step(says="ready"),
            "jobset wait train --for=completed": Step(before=completed, says="completed\ndone"),
            "jobset suspend train": Step(before=again, says="suspend"),
            "jobset scale train workers=6": Step(says="scaled: workers has 6"),
        },
    ),
    "docs/concepts/exclusive-placement.md": Scene(prepare=waiting, steps={"jobset explain": Step(says="rack")}),
    "docs/concepts/node-failure.md": Scene(names={"gpu-17": NODE}, prepare=tainted, clean=untainted),
    "docs/debugging.md": Scene(
        prepare=train,
        clean=unbound,
        order=("kubectl create ", "TOKEN="),
        steps={
            "kubectl logs": Step(says=r"admitted CREATE \S+/train (.|\n)*create 4 Jobs"),
            'curl -k -H "Authorization: Bearer $TOKEN" -X PUT': Step(says='"level":"debug"'),
            'curl -k -H "Authorization: Bearer $TOKEN" https://localhost:8443/debug/loglevel': Step(
                says=r'"level": ?"'
            ),
            'curl -k -H "Authorization: Bearer $TOKEN" https://localhost:8443/debug/stacks': Step(says="asyncio"),
        },
    ),
    "docs/demo.md": Scene(
        prepare=training,
        steps={
            "kubectl delete": Step(says='"training" deleted'),
            "kubectl apply": Step(says="training created"),
            "jobset explain training": Step(says="training"),
            "kubectl annotate": Step(says="annotated"),
            "jobset wait training --for=ready": Step(says="ready"),
            "jobset wait training --for=completed": Step(says="completed"),
        },
    ),
    "docs/explain.md": Scene(
        prepare=train,
        steps={
            "jobset explain train -w": Step(says="train.*4 of 4 Jobs", goes_on=True, code=130),
            "jobset explain train -o json": Step(says=r"^\{"),
            "jobset explain": Step(says="train"),
        },
    ),
    "docs/gitops.md": Scene(
        prepare=training,
        steps={"kubectl apply": Step(says="serverside-applied"), "kubectl wait": Step(says="condition met")},
    ),
    "docs/migrate.md": Scene(
        prepare=pytorch,
        steps={
            "jobset init": Step(says="success: the set completes when all pods have succeeded"),
            "jobset validate": Step(says="0 errors, 0 warnings"),
            "kubectl apply": Step(says="mnist created"),
            "jobset explain mnist": Step(says="mnist"),
        },
    ),
    "docs/policy/README.md": Scene(
        prepare=tenant, steps={"jobset policy eval": Step(code=1, says="policy tenants: no queue is named")}
    ),
    "docs/policy/admission.md": Scene(
        prepare=files,
        clean=without_policies,
        steps={"kubectl create": Step(before=in_force, says="Warning: .*9 pods, and at most 8 allowed")},
    ),
    "docs/policy/api-server.md": Scene(
        prepare=tenant,
        clean=without_exported,
        steps={"jobset policy export": Step(says="jobset-policy-tenants serverside-applied")},
    ),
    "docs/policy/audit.md": Scene(
        prepare=audited,
        clean=without_policies,
        steps={
            "kubectl get jobsetpolicy": Step(
                says=r'\{\n  "first": \[\n    \{\n      "message": ".*",\n      "name": ".*",\n      "namespace": ".*",\n'
                r'      "rule": ".*"\n    \}(.|\n)*\],\n  "jobsets": \d+,\n  "time": ".*Z",\n  "unchecked": 0,\n  "violations": \d+\n\}'
            )
        },
    ),
    "docs/policy/defaults.md": Scene(prepare=train, steps={"kubectl patch": Step(says="jobset.*/train patched")}),
    "docs/policy/exceptions.md": Scene(steps={"kubectl": Step(says="rolebinding.*/grant-exceptions created")}),
    "docs/policy/from-kyverno.md": Scene(
        prepare=kyverno, steps={"jobset policy eval": Step(code=1, says="no queue is named")}
    ),
    "docs/policy/rollout.md": Scene(
        prepare=stored, clean=without_policies, steps={"jobset policy scan": Step(code=1, says="requiredQueue")}
    ),
    "docs/policy/status.md": Scene(
        prepare=stored,
        clean=without_policies,
        steps={
            "kubectl get": Step(
                says=r"NAME +ACTIONS +READY +DENIED +WARNED +VIOLATIONS +REVIEWS-FROM +LAST-SEEN +AGE\ntenants +\[\"Deny\"\]"
            )
        },
    ),
    "docs/quick-start.md": Scene(
        steps={"kubectl get": Step(says=r"^NAME .*\ntraining "), "jobset explain": Step(says="training")}
    ),
    "docs/reference/configuration.md": Scene(
        prepare=files, steps={"jobset manager --check-config=manager.yaml -o yaml": Step(says="RestartJob: true")}
    ),
    "docs/rights.md": Scene(steps={"kubectl auth can-i": Step(before=granted, says="yes")}),
    "docs/sizing.md": Scene(steps={"kubectl": Step(says="resource=")}),
    "docs/troubleshooting.md": Scene(
        prepare=training,
        names={"NAME": "training"},
        steps={
            "kubectl describe": Step(says="Conditions:(.|\n)*Events:"),
            "jobset explain": Step(says="training"),
            "kubectl logs": Step(says="admitted CREATE"),
        },
    ),
    "docs/ui.md": Scene(
        steps={
            "jobset ui": Step(says=r"JobSets of namespace \S+: http://127.0.0.1:\d+/ \(Ctrl-C ends it\)", goes_on=True)
        }
    ),
    "docs/validate.md": Scene(
        prepare=allowed,
        steps={
            "jobset validate -R -f deploy/ --strict": Step(),
            "jobset validate a.yaml": Step(says="3 files, 3 JobSets, 0 errors, 0 warnings"),
            "jobset validate": Step(says="1 file, 1 JobSet, (1 policy, )?0 errors, 0 warnings"),
            "jobset render": Step(code=1, says=r"\+kind: Job\n"),
        },
    ),
    "examples/fine-tuning/README.md": Scene(
        steps={"kubectl get": Step(says=r"initializer \(1/3\)", goes_on=True, code=1)}
    ),
}
