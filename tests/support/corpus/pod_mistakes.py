"""Templates of Jobs with a mistake in the pod: in amounts, volumes, or where and how it runs. See `job_mistakes`."""

from tests.support.cluster.dry_run import pod
from tests.support.corpus.job_templates import (
    POD_TERM,
    SPREAD,
    TERM,
    before,
    main,
    mounts,
    nodes,
    pods,
    resources,
    spread,
    tolerate,
    volume,
)
from tests.support.objects.jobsets import rjob

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
    "volume-size-limit": volume(emptyDir={"sizeLimit": "-1"}),
    "os-name": rjob(pod=pod(os={"name": "plan9"})),
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
    "host-path-empty-of-a-type": volume(hostPath={"path": "", "type": "dir"}),
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
    "preemption-policy-empty": rjob(pod=pod(preemptionPolicy="")),
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
    "pod-affinity-namespace-empty": pods(namespaces=[""]),
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
