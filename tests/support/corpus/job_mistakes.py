"""Templates of Jobs with a mistake each, by name, and templates that look like one and are good.

What a real API server says about each is kept in job_answers.json beside this file: record it again with
`python -m tests.support.corpus.job_answers`. tests/integration/dry_run/test_job_answers.py notices when it is no longer true.
"""

from tests.support.cluster.dry_run import container, pod
from tests.support.corpus.job_templates import (
    CODES,
    FIELD,
    GIT,
    SPREAD,
    TERM,
    before,
    env,
    failing,
    main,
    meta,
    mounts,
    nodes,
    on_codes,
    probe,
    resources,
    spread,
    succeeding,
    volume,
)
from tests.support.corpus.pod_mistakes import PODS, RESOURCES, VOLUMES
from tests.support.objects.jobsets import rjob

JOBS = {
    "parallelism-negative": rjob(parallelism=-1),
    "completions-negative": rjob(completions=-2),
    "completions-missing": rjob(completions=None),
    "backoff-limit-negative": rjob(job={"backoffLimit": -1}),
    "deadline-negative": rjob(job={"activeDeadlineSeconds": -5}),
    "ttl-negative": rjob(job={"ttlSecondsAfterFinished": -1}),
    "completion-mode-unknown": rjob(job={"completionMode": "indexed"}),
    "parallelism-above-the-limit": rjob(parallelism=100_001),
    "per-index-on-non-indexed": rjob(job={"completionMode": "NonIndexed", "backoffLimitPerIndex": 1}),
    "failed-indexes-on-non-indexed": rjob(
        job={"completionMode": "NonIndexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 1}
    ),
    "failed-indexes-alone": rjob(job={"maxFailedIndexes": 1}),
    "failed-indexes-above-completions": rjob(completions=2, job={"backoffLimitPerIndex": 1, "maxFailedIndexes": 3}),
    "per-index-negative": rjob(job={"backoffLimitPerIndex": -1}),
    "failed-indexes-negative": rjob(job={"backoffLimitPerIndex": 1, "maxFailedIndexes": -1}),
    "many-indexes": rjob(parallelism=10_001, completions=100_001, job={"backoffLimitPerIndex": 1}),
    "many-failed-indexes": rjob(completions=100_001, job={"backoffLimitPerIndex": 1, "maxFailedIndexes": 10_001}),
    "success-policy-on-non-indexed": rjob(
        job={"completionMode": "NonIndexed", "successPolicy": {"rules": [{"succeededCount": 1}]}}
    ),
    "success-policy-without-rules": succeeding(),
    "success-rule-empty": succeeding({}),
    "success-count-above-completions": succeeding({"succeededCount": 5}),
    "success-count-above-the-one-pod": rjob(
        completions=None, parallelism=None, job={"successPolicy": {"rules": [{"succeededCount": 2}]}}
    ),
    "success-count-negative": succeeding({"succeededCount": -1}),
    "success-count-above-indexes": succeeding({"succeededIndexes": "0-1", "succeededCount": 3}),
    "success-index-too-large": succeeding({"succeededIndexes": "1,4"}),
    "success-indexes-no-numbers": succeeding({"succeededIndexes": "a-b"}),
    "success-indexes-backwards": succeeding({"succeededIndexes": "3-1"}),
    "success-indexes-not-increasing": succeeding({"succeededIndexes": "2,1"}),
    "success-indexes-three-parts": succeeding({"succeededIndexes": "0-1-2"}),
    "restart-policy-always": rjob(pod=pod(restartPolicy="Always")),
    "restart-policy-unknown": rjob(pod=pod(restartPolicy="never")),
    "restart-policy-on-failure-with-failure-policy": failing(
        {"action": "FailJob", "onExitCodes": CODES}, restartPolicy="OnFailure"
    ),
    "failure-action-unknown": failing({"action": "Fail", "onExitCodes": CODES}),
    "failure-action-empty": failing({"action": "", "onExitCodes": CODES}),
    "fail-index-without-per-index": failing({"action": "FailIndex", "onExitCodes": CODES}),
    "failure-rule-without-requirement": failing({"action": "Count"}),
    "failure-rule-with-both": failing(
        {"action": "Count", "onExitCodes": CODES, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ),
    "exit-codes-none": on_codes(values=[]),
    "exit-codes-zero": on_codes(values=[0, 1]),
    "exit-codes-not-ordered": on_codes(values=[5, 3]),
    "exit-codes-twice": on_codes(values=[3, 3]),
    "exit-codes-operator": on_codes(operator="Is"),
    "exit-codes-operator-empty": on_codes(operator=""),
    "exit-codes-container": on_codes(containerName="other"),
    "exit-codes-too-many": on_codes(values=list(range(1, 257))),
    "failure-rules-too-many": failing(*[{"action": "Count", "onExitCodes": CODES}] * 21),
    "pod-condition-status": failing({"action": "Ignore", "onPodConditions": [{"type": "Ready", "status": "Maybe"}]}),
    "pod-condition-type": failing({"action": "Ignore", "onPodConditions": [{"type": "a b", "status": "True"}]}),
    "replacement-policy-unknown": rjob(job={"podReplacementPolicy": "Always"}),
    "replacement-policy-with-failure-policy": failing(
        {"action": "Count", "onExitCodes": CODES}, podReplacementPolicy="TerminatingOrFailed"
    ),
    "selector": rjob(job={"selector": {"matchLabels": {"a": "b"}}}),
    "manual-selector-without-selector": rjob(job={"manualSelector": True}),
    "manual-selector-that-matches-no-pod": rjob(
        job={"manualSelector": True, "selector": {"matchLabels": {"team": "b"}}}
    ),
    "pod-label-job-name": meta(labels={"job-name": "x", "batch.kubernetes.io/job-name": "y"}),
    "job-label-key": {**rjob(), "template": {**rjob()["template"], "metadata": {"labels": {"a b": "c"}}}},
    "job-annotation-key": {**rjob(), "template": {**rjob()["template"], "metadata": {"annotations": {"/a": "c"}}}},
    "pod-label-value": meta(labels={"team": "a b"}),
    "pod-label-key": meta(labels={"team a": "b"}),
    "pod-annotation-key": meta(annotations={"a/b/c": "d"}),
}
CONTAINERS = {
    "containers-empty": rjob(pod={"containers": []}),
    "image-missing": rjob(pod={"containers": [{"name": "main"}]}),
    "image-empty": main(image=""),
    "container-name-empty": main(name=""),
    "container-name-capitals": main(name="Main"),
    "container-name-underscore": main(name="my_main"),
    "container-name-long": main(name="m" * 64),
    "container-name-twice-in-init": rjob(pod=pod(initContainers=[container()])),
    "pull-policy": main(imagePullPolicy="always"),
    "termination-message-policy": main(terminationMessagePolicy="Log"),
    "port-zero": main(ports=[{"containerPort": 0}]),
    "port-above-range": main(ports=[{"containerPort": 70000}]),
    "port-negative": main(ports=[{"containerPort": -1}]),
    "port-protocol": main(ports=[{"containerPort": 80, "protocol": "tcp"}]),
    "port-name-twice": main(ports=[{"containerPort": 80, "name": "http"}, {"containerPort": 81, "name": "http"}]),
    "port-name-long": main(ports=[{"containerPort": 80, "name": "a-name-of-17-char"}]),
    "port-name-form": main(ports=[{"containerPort": 80, "name": "HTTP"}]),
    "port-name-digits": main(ports=[{"containerPort": 80, "name": "80"}]),
    "port-name-hyphens": main(ports=[{"containerPort": 80, "name": "-a--b-"}]),
    "host-port-above-range": main(ports=[{"containerPort": 80, "hostPort": 65536}]),
    "host-port-twice": rjob(
        pod=pod(
            container(ports=[{"containerPort": 80, "hostPort": 8080}]),
            container(name="side", ports=[{"containerPort": 81, "hostPort": 8080}]),
        )
    ),
    "host-network-ports": rjob(pod=pod(container(ports=[{"containerPort": 80, "hostPort": 81}]), hostNetwork=True)),
    "env-name-empty": env(name=""),
    "env-name-equals": env(name="A=B", value="x"),
    "env-name-not-ascii": env(name="Größe", value="x"),
    "env-value-and-value-from": env(name="A", value="x", valueFrom=FIELD),
    "env-two-sources": env(name="A", valueFrom={**FIELD, "secretKeyRef": {"name": "s", "key": "k"}}),
    "env-no-source": env(name="A", valueFrom={}),
    "env-field-path": env(name="A", valueFrom={"fieldRef": {"fieldPath": "metadata.names"}}),
    "env-field-unsupported": env(name="A", valueFrom={"fieldRef": {"fieldPath": "spec.restartPolicy"}}),
    "env-field-subscript": env(name="A", valueFrom={"fieldRef": {"fieldPath": "spec.x['a']"}}),
    "env-field-label-key": env(name="A", valueFrom={"fieldRef": {"fieldPath": "metadata.labels['a b']"}}),
    "env-field-version": env(name="A", valueFrom={"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v2"}}),
    "env-field-empty": env(name="A", valueFrom={"fieldRef": {"fieldPath": ""}}),
    "env-resource": env(name="A", valueFrom={"resourceFieldRef": {"resource": "limits.gpu"}}),
    "env-divisor": env(name="A", valueFrom={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}),
    "env-divisor-memory": env(name="A", valueFrom={"resourceFieldRef": {"resource": "limits.memory", "divisor": "3"}}),
    "env-secret-name": env(name="A", valueFrom={"secretKeyRef": {"name": "My_Secret", "key": "k"}}),
    "env-secret-without-name": env(name="A", valueFrom={"secretKeyRef": {"key": "k"}}),
    "env-config-key": env(name="A", valueFrom={"configMapKeyRef": {"name": "c", "key": "a/b"}}),
    "env-config-key-dots": env(name="A", valueFrom={"configMapKeyRef": {"name": "c", "key": ".."}}),
    "env-config-key-empty": env(name="A", valueFrom={"configMapKeyRef": {"name": "c", "key": ""}}),
    "env-from-nothing": main(envFrom=[{}]),
    "env-from-both": main(envFrom=[{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]),
    "env-from-name": main(envFrom=[{"configMapRef": {"name": "A_B"}}]),
    "env-from-name-empty": main(envFrom=[{"secretRef": {}}]),
    "env-from-prefix": main(envFrom=[{"prefix": "a=", "configMapRef": {"name": "a"}}]),
    "probe-empty": main(livenessProbe={}),
    "probe-two-handlers": probe(tcpSocket={"port": 80}),
    "probe-success-threshold": probe(successThreshold=2),
    "startup-probe-success-threshold": main(startupProbe={"tcpSocket": {"port": 1}, "successThreshold": 3}),
    "probe-negative": probe(initialDelaySeconds=-1, timeoutSeconds=-1, periodSeconds=-1, failureThreshold=-1),
    "probe-grace-period": probe(terminationGracePeriodSeconds=0),
    "readiness-probe-grace-period": main(readinessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5}),
    "probe-port": main(livenessProbe={"httpGet": {"port": 0}}),
    "probe-port-name": main(livenessProbe={"httpGet": {"port": "A_B"}}),
    "probe-scheme": main(livenessProbe={"httpGet": {"port": 80, "scheme": "http"}}),
    "probe-header": main(livenessProbe={"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": "c"}]}}),
    "probe-command": main(livenessProbe={"exec": {}}),
    "probe-grpc-port": main(livenessProbe={"grpc": {"port": 0}}),
    "hook-empty": main(lifecycle={"preStop": {}}),
    "hook-two-handlers": main(lifecycle={"postStart": {"exec": {"command": ["a"]}, "httpGet": {"port": 1}}}),
    "hook-sleep": main(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
    "init-probe": before(livenessProbe={"exec": {"command": ["true"]}}),
    "init-hook": before(lifecycle={"preStop": {"exec": {"command": ["true"]}}}),
    "init-restart-policy": before(restartPolicy="Sometimes"),
    "init-image": before(image=""),
    "restart-rules-without-policy": main(
        restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]
    ),
    "restart-rule-without-codes": main(restartPolicy="Never", restartPolicyRules=[{"action": "Restart"}]),
    "resize-by-restart-of-pods-that-never-restart": rjob(
        pod=pod(
            container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
            restartPolicy="Never",
        )
    ),
    "resize-policy-empty-of-pods-that-never-restart": rjob(
        pod=pod(container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": ""}]), restartPolicy="Never")
    ),
    "resize-resource": main(resizePolicy=[{"resourceName": "gpu", "restartPolicy": "NotRequired"}]),
}
GOOD = {
    "good": rjob(),
    "good-without-numbers": rjob(completions=None, parallelism=None),
    "good-volume-without-source": volume(),
    "good-grace-period-negative": rjob(pod=pod(terminationGracePeriodSeconds=-1)),
    "good-pod-condition-status-empty": failing(
        {"action": "Ignore", "onPodConditions": [{"type": "Ready", "status": ""}]}
    ),
    "good-manual-selector": rjob(
        job={
            "manualSelector": True,
            "selector": {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "train"}},
        }
    ),
    "good-side-car": before(restartPolicy="Always", livenessProbe={"tcpSocket": {"port": "http"}}),
    "good-devices": resources(limits={"nvidia.com/gpu": 8, "cpu": "0.5", "memory": "1.5Gi"}, requests={"cpu": "100m"}),
    "good-huge-pages": resources(limits={"hugepages-2Mi": "4Mi", "memory": "1Gi"}),
    "good-limits-alone": resources(limits={"cpu": 1}),
    "good-failure-policy": failing(
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [0, 3]}},
        backoffLimitPerIndex=0,
        maxFailedIndexes=1,
        podReplacementPolicy="Failed",
    ),
    "good-success-policy": succeeding({"succeededIndexes": "0,2-3", "succeededCount": 3}),
    "good-probes": main(
        livenessProbe={"httpGet": {"port": 80, "path": "/x"}, "successThreshold": 1},
        readinessProbe={"grpc": {"port": 80}, "successThreshold": 3},
        startupProbe={"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": 5},
        lifecycle={"preStop": {"sleep": {"seconds": 30}}},
        ports=[{"containerPort": 80, "name": "http", "hostPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
    ),
    "good-env": main(
        env=[
            {"name": "my.name-1", "value": ""},
            {"name": "1 odd name", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {"name": "S", "value": "", "valueFrom": {"secretKeyRef": {"name": "s.t", "key": "a.b_c"}}},
        ],
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "c", "optional": True}}],
    ),
    "good-volumes": mounts(
        {"name": "data", "mountPath": "/d", "subPath": "a/b", "readOnly": True},
        {"name": "data", "mountPath": "/e", "subPathExpr": "$(POD)"},
        {"name": "all", "mountPath": "/f"},
        {"name": "shm", "mountPath": "/dev/shm"},
        volumes=(
            GIT,
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "all", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {"name": "host", "hostPath": {"path": "/x", "type": ""}},
            {"name": "nfs", "nfs": {"server": "s", "path": "/"}},
        ),
    ),
    "good-empty-words": rjob(
        pod=pod(
            container(imagePullPolicy="", terminationMessagePolicy=""),
            dnsPolicy="",
            tolerations=[{"operator": "Exists"}],
        )
    ),
    "good-affinity": nodes(
        TERM, {**TERM, "operator": "Exists", "values": []}, {**TERM, "operator": "Gt", "values": ["1"]}
    ),
    "good-spread": spread(SPREAD, {**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}, {**SPREAD, "topologyKey": "a b"}),
    "good-dns": rjob(
        pod=pod(
            dnsPolicy="None",
            dnsConfig={
                "nameservers": ["10.0.0.1", "fd00::1"],
                "searches": ["a_b.c.", "."],
                "options": [{"name": "ndots"}],
            },
            hostAliases=[{"ip": "::1", "hostnames": ["a.b"]}],
        )
    ),
    "good-tolerations": rjob(
        pod=pod(
            tolerations=[
                {"key": "a", "value": ""},
                {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
                {"key": "a", "operator": "Equal", "value": "b", "effect": ""},
            ]
        )
    ),
    "good-host-network": rjob(pod=pod(container(ports=[{"containerPort": 80}]), hostNetwork=True)),
    "good-zeros": rjob(
        parallelism=0, completions=0, job={"backoffLimit": 0, "ttlSecondsAfterFinished": 0, "activeDeadlineSeconds": 0}
    ),
    "good-security": main(
        securityContext={
            "runAsUser": 0,
            "privileged": True,
            "seccompProfile": {"type": "Localhost", "localhostProfile": "a"},
        }
    ),
}
CASES = {**JOBS, **CONTAINERS, **RESOURCES, **VOLUMES, **PODS, **GOOD}
