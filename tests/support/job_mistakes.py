"""Templates of Jobs with a mistake each, by name, and templates that look like one and are good.

What a real API server says about each is kept in job_answers.json beside this file: record it again with
`python -m tests.support.job_answers`. tests/integration/dry_run/test_job_answers.py notices when it is no longer true.
"""

from __future__ import annotations

from typing import Any

from tests.support.dry_run import container, pod
from tests.support.jobsets import JSON, rjob

GIT = {"name": "data", "emptyDir": {}}
FIELD = {"fieldRef": {"fieldPath": "metadata.name"}}
CODES = {"operator": "In", "values": [3]}
TERM = {"key": "zone", "operator": "In", "values": ["a"]}
POD_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"a": "b"}},
}


def main(**fields: Any) -> JSON:
    """With these fields of its one container."""
    return rjob(pod=pod(container(**fields)))


def resources(**fields: Any) -> JSON:
    return main(resources=fields)


def mounts(*wanted: JSON, volumes: tuple[JSON, ...] = (GIT,), **fields: Any) -> JSON:
    return rjob(pod=pod(container(volumeMounts=list(wanted), **fields), volumes=list(volumes)))


def volume(**source: Any) -> JSON:
    return rjob(pod=pod(volumes=[{"name": "v", **source}]))


def env(**variable: Any) -> JSON:
    return main(env=[variable])


def probe(**fields: Any) -> JSON:
    return main(livenessProbe={"exec": {"command": ["true"]}, **fields})


def failing(*rules: JSON, restartPolicy: str = "Never", **job: Any) -> JSON:  # noqa: N803 (the field's name)
    return rjob(pod=pod(restartPolicy=restartPolicy), job={"podFailurePolicy": {"rules": list(rules)}, **job})


def on_codes(**fields: Any) -> JSON:
    return failing({"action": "FailJob", "onExitCodes": {**CODES, **fields}})


def succeeding(*rules: JSON, completions: int = 4, **job: Any) -> JSON:
    return rjob(completions=completions, job={"successPolicy": {"rules": list(rules)}, **job})


def meta(**metadata: Any) -> JSON:
    return rjob(job={"template": {"metadata": metadata, "spec": pod()}})


def tolerate(**fields: Any) -> JSON:
    return rjob(pod=pod(tolerations=[fields]))


def nodes(*terms: JSON) -> JSON:
    """Terms about labels of nodes."""
    wanted = {"nodeSelectorTerms": [{"matchExpressions": list(terms)}]}
    return rjob(pod=pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}))


def pods(*, kind: str = "podAffinity", **term: Any) -> JSON:
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": [{**POD_TERM, **term}]}
    return rjob(pod=pod(affinity={kind: wanted}))


def spread(*constraints: JSON) -> JSON:
    return rjob(pod=pod(topologySpreadConstraints=list(constraints)))


def before(**fields: Any) -> JSON:
    return rjob(pod=pod(initContainers=[container(name="before", **fields)]))


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
    "env-field-path": env(name="A", valueFrom={"fieldRef": {"fieldPath": "metadata.nam"}}),
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
    "resize-resource": main(resizePolicy=[{"resourceName": "gpu", "restartPolicy": "NotRequired"}]),
}
RESOURCES = {
    "requests-above-limits": resources(requests={"cpu": "2"}, limits={"cpu": "1"}),
    "requests-above-limits-in-other-units": resources(requests={"memory": "1.5Gi"}, limits={"memory": "1500M"}),
    "requests-above-limits-fractions": resources(requests={"cpu": "0.75"}, limits={"cpu": "500m"}),
    "requests-above-limits-exponents": resources(requests={"memory": "12e6"}, limits={"memory": 1000000}),
    "requests-below-limits-of-devices": resources(requests={"nvidia.com/gpu": 1}, limits={"nvidia.com/gpu": 2}),
    "limits-of-devices-missing": resources(requests={"nvidia.com/gpu": 1}),
    "devices-in-parts": resources(limits={"nvidia.com/gpu": "1500m"}),
    "amount-negative": resources(limits={"cpu": "-1"}, requests={"cpu": "-1"}),
    "resource-name": resources(limits={"gpu": 1}),
    "resource-name-form": resources(limits={"a b": 1}, requests={"a b": 1}),
    "resource-name-standard": resources(limits={"pods": 1}, requests={"pods": 1}),
    "huge-pages-alone": resources(limits={"hugepages-2Mi": "4Mi"}),
    "huge-pages-in-parts": resources(limits={"hugepages-2Mi": "3Mi", "cpu": "1"}),
    "huge-pages-requests": resources(requests={"hugepages-2Mi": "2Mi"}, limits={"hugepages-2Mi": "4Mi", "cpu": "1"}),
    "device-claim-unknown": main(resources={"claims": [{"name": "gpu"}]}),
    "device-claim-without-source": rjob(pod=pod(resourceClaims=[{"name": "gpu"}])),
    "device-claim-two-sources": rjob(
        pod=pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}])
    ),
    "overhead-negative": rjob(pod=pod(overhead={"cpu": "-1"})),
    "pod-resource-name": rjob(pod=pod(resources={"limits": {"ephemeral-storage": "1Gi"}})),
}
VOLUMES = {
    "mount-without-volume": mounts({"name": "dta", "mountPath": "/d"}),
    "mount-path-twice": mounts({"name": "data", "mountPath": "/d"}, {"name": "data", "mountPath": "/d"}),
    "mount-path-empty": mounts({"name": "data", "mountPath": ""}),
    "mount-name-empty": mounts({"name": "", "mountPath": "/d"}),
    "mount-sub-path": mounts({"name": "data", "mountPath": "/d", "subPath": "/abs"}),
    "mount-sub-path-up": mounts({"name": "data", "mountPath": "/d", "subPath": "a/../b"}),
    "mount-sub-paths": mounts({"name": "data", "mountPath": "/d", "subPath": "a", "subPathExpr": "b"}),
    "mount-propagation": mounts({"name": "data", "mountPath": "/d", "mountPropagation": "Both"}),
    "mount-propagation-unprivileged": mounts({"name": "data", "mountPath": "/d", "mountPropagation": "Bidirectional"}),
    "mount-of-init-container": before(volumeMounts=[{"name": "data", "mountPath": "/d"}]),
    "volume-two-sources": volume(emptyDir={}, hostPath={"path": "/x"}),
    "volume-three-sources": volume(emptyDir={}, configMap={"name": "a"}, projected={"sources": []}),
    "volume-name": rjob(pod=pod(volumes=[{"name": "My_Volume", "emptyDir": {}}])),
    "volume-name-empty": rjob(pod=pod(volumes=[{"name": "", "emptyDir": {}}])),
    "secret-without-name": volume(secret={}),
    "secret-mode": volume(secret={"secretName": "s", "defaultMode": 1000}),
    "secret-item": volume(secret={"secretName": "s", "items": [{"key": "", "path": "../a", "mode": 512}]}),
    "secret-item-absolute": volume(secret={"secretName": "s", "items": [{"key": "k", "path": "/a"}]}),
    "secret-item-dots": volume(secret={"secretName": "s", "items": [{"key": "k", "path": "..a"}]}),
    "config-map-without-name": volume(configMap={}),
    "claim-without-name": volume(persistentVolumeClaim={"claimName": ""}),
    "host-path-empty": volume(hostPath={"path": ""}),
    "host-path-up": volume(hostPath={"path": "/a/../b"}),
    "host-path-type": volume(hostPath={"path": "/a", "type": "dir"}),
    "nfs-relative": volume(nfs={"server": "s", "path": "a"}),
    "nfs-empty": volume(nfs={"server": "", "path": ""}),
    "downward-file-without-source": volume(downwardAPI={"items": [{"path": "a"}]}),
    "downward-file-field": volume(downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}]}),
    "downward-file-container": volume(
        downwardAPI={"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}
    ),
    "projected-token": volume(projected={"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 60}}]}),
    "projected-secret": volume(projected={"sources": [{"secret": {}}]}),
    "ephemeral-empty": volume(ephemeral={}),
    "ephemeral-storage": volume(ephemeral={"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}),
    "ephemeral-access-mode": volume(
        ephemeral={
            "volumeClaimTemplate": {"spec": {"accessModes": ["RWO"], "resources": {"requests": {"storage": "1Gi"}}}}
        }
    ),
}
PODS = {
    "deadline-of-pods": rjob(pod=pod(activeDeadlineSeconds=0)),
    "dns-policy": rjob(pod=pod(dnsPolicy="clusterFirst")),
    "dns-policy-none": rjob(pod=pod(dnsPolicy="None")),
    "dns-policy-none-without-servers": rjob(pod=pod(dnsPolicy="None", dnsConfig={})),
    "dns-server": rjob(pod=pod(dnsConfig={"nameservers": ["1.2.3"]})),
    "dns-server-leading-zero": rjob(pod=pod(dnsConfig={"nameservers": ["010.1.1.1"]})),
    "dns-servers-too-many": rjob(pod=pod(dnsConfig={"nameservers": ["1.1.1.1"] * 4})),
    "dns-search": rjob(pod=pod(dnsConfig={"searches": ["Example.com"]})),
    "dns-searches-too-many": rjob(pod=pod(dnsConfig={"searches": [f"a{i}" for i in range(33)]})),
    "dns-option": rjob(pod=pod(dnsConfig={"options": [{"value": "2"}]})),
    "host-alias-address": rjob(pod=pod(hostAliases=[{"ip": "x", "hostnames": ["a_b"]}])),
    "hostname": rjob(pod=pod(hostname="My.Host")),
    "node-name": rjob(pod=pod(nodeName="Node_1")),
    "service-account": rjob(pod=pod(serviceAccountName="Default_Account")),
    "priority-class": rjob(pod=pod(priorityClassName="High Priority")),
    "runtime-class": rjob(pod=pod(runtimeClassName="gVisor")),
    "preemption-policy": rjob(pod=pod(preemptionPolicy="Always")),
    "readiness-gate": rjob(pod=pod(readinessGates=[{"conditionType": "a b"}])),
    "scheduling-gate-name": rjob(pod=pod(schedulingGates=[{"name": "a b"}])),
    "node-selector-key": rjob(pod=pod(nodeSelector={"a b": "c"})),
    "node-selector-value": rjob(pod=pod(nodeSelector={"a": "b c"})),
    "ephemeral-containers": rjob(pod=pod(ephemeralContainers=[{"name": "debug", "image": "busybox"}])),
    "host-users-host-network": rjob(pod=pod(hostUsers=False, hostNetwork=True)),
    "host-pid-shared": rjob(pod=pod(hostPID=True, shareProcessNamespace=True)),
    "toleration-operator": tolerate(key="a", operator="Equals", value="b"),
    "toleration-effect": tolerate(key="a", operator="Exists", effect="NoRun"),
    "toleration-exists-value": tolerate(key="a", operator="Exists", value="b"),
    "toleration-without-key": tolerate(operator="Equal", value="b"),
    "toleration-seconds": tolerate(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=5),
    "toleration-key": tolerate(key="a b", operator="Exists"),
    "toleration-value": tolerate(key="a", value="b c"),
    "node-affinity-operator": nodes({**TERM, "operator": "Equals"}),
    "node-affinity-values": nodes({**TERM, "values": []}),
    "node-affinity-exists-values": nodes({**TERM, "operator": "Exists"}),
    "node-affinity-greater": nodes({**TERM, "operator": "Gt", "values": ["1", "2"]}),
    "node-affinity-key": nodes({**TERM, "key": "a b"}),
    "node-affinity-value": nodes({**TERM, "values": ["a b"]}),
    "node-affinity-without-terms": rjob(
        pod=pod(
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
        )
    ),
    "node-affinity-weight": rjob(
        pod=pod(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 101, "preference": {"matchExpressions": [TERM]}}
                    ]
                }
            }
        )
    ),
    "node-affinity-field": rjob(
        pod=pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.labels", "operator": "In", "values": ["a"]}]}
                        ]
                    }
                }
            }
        )
    ),
    "pod-affinity-topology": pods(topologyKey=""),
    "pod-affinity-topology-key": pods(topologyKey="a b"),
    "pod-affinity-selector": pods(labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
    "pod-affinity-operator": pods(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
    "pod-anti-affinity-value": pods(kind="podAntiAffinity", labelSelector={"matchLabels": {"a": "b c"}}),
    "pod-affinity-namespace": pods(namespaces=["A_B"]),
    "pod-affinity-weight": rjob(
        pod=pod(
            affinity={
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": POD_TERM}]
                }
            }
        )
    ),
    "pod-affinity-label-keys": pods(labelSelector=None, matchLabelKeys=["a"]),
    "spread-skew": spread({**SPREAD, "maxSkew": 0}),
    "spread-topology": spread({**SPREAD, "topologyKey": ""}),
    "spread-action": spread({**SPREAD, "whenUnsatisfiable": "Refuse"}),
    "spread-domains": spread({**SPREAD, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}),
    "spread-domains-zero": spread({**SPREAD, "minDomains": 0}),
    "spread-policy": spread({**SPREAD, "nodeTaintsPolicy": "Obey"}),
    "spread-selector": spread({**SPREAD, "labelSelector": {"matchLabels": {"a b": "c"}}}),
    "user-negative": rjob(pod=pod(securityContext={"runAsUser": -1, "fsGroup": -1, "supplementalGroups": [-1]})),
    "user-of-container-negative": main(securityContext={"runAsUser": -1, "runAsGroup": 2**31}),
    "privileged-without-escalation": main(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
    "sys-admin-without-escalation": main(
        securityContext={"capabilities": {"add": ["CAP_SYS_ADMIN"]}, "allowPrivilegeEscalation": False}
    ),
    "seccomp-type": main(securityContext={"seccompProfile": {"type": "Default"}}),
    "seccomp-local-without-file": main(securityContext={"seccompProfile": {"type": "Localhost"}}),
    "seccomp-file-without-local": rjob(
        pod=pod(securityContext={"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}})
    ),
    "apparmor-type": main(securityContext={"appArmorProfile": {"type": "runtime/default"}}),
    "proc-mount": main(securityContext={"procMount": "unmasked"}),
    "proc-mount-unmasked": main(securityContext={"procMount": "Unmasked"}),
    "sysctl-name": rjob(pod=pod(securityContext={"sysctls": [{"name": "Net.core", "value": "1"}]})),
    "sysctl-twice": rjob(pod=pod(securityContext={"sysctls": [{"name": "a.b", "value": "1"}] * 2})),
    "group-change-policy": rjob(pod=pod(securityContext={"fsGroupChangePolicy": "Never"})),
    "supplemental-groups-policy": rjob(pod=pod(securityContext={"supplementalGroupsPolicy": "merge"})),
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
