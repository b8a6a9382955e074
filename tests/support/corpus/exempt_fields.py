"""Fields of a JobSet that no rule of policies reads, each with the reason.

A path that ends with `*` covers what is below, but for fields whose names say that they could be for a rule
(`SENSITIVE`): such a field needs a line of its own. One that ends with `**` covers everything below.
"""

import re

SENSITIVE = re.compile(
    "image|action|count|limit|^max|^min|replicas|parallelism|completions|restart|resource|request|overhead|storage"
    "|size|selector|affinity|topolog|toleration|claim|privileg|^host|capabilit|device|priorit|^add$|queue|node",
    re.IGNORECASE,
)
"""What a name has in it that says: an image, action, count, amount, selector, toleration, claim or privilege."""

_RJOB = "spec.replicatedJobs[]"
_JOB = f"{_RJOB}.template.spec"
_POD = f"{_JOB}.template.spec"
_CONTAINER = f"{_POD}.containers[]"
_INIT = f"{_POD}.initContainers[]"
_GROUP_LEVELS = ("spec.scheduling", "spec.scheduling.replicatedJobs[]", "spec.scheduling.replicatedJobs[].job")
_NODE_TERMS = (
    f"{_POD}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[]",
    f"{_POD}.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].preference",
)
_POD_TERMS = tuple(
    f"{_POD}.affinity.{kind}.{term}"
    for kind in ("podAffinity", "podAntiAffinity")
    for term in (
        "requiredDuringSchedulingIgnoredDuringExecution[]",
        "preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm",
    )
)

NAMES = "a name, by which nothing is asked of a node or a registry"
ORDER = "order of start and end: it takes no more pods, and no other ones"
DOWN = "can only make a set smaller, shorter or fail earlier"
PROGRAM = "what the program in the container does and sees; the registry and the digest of its image are judged"
OWN_NAMESPACE = "objects of the namespace, which its RBAC and quotas guard"
STORAGE = "storage: quotas of the namespace and its StorageClasses bound it, and no rule promises anything about it"
ADMIN = "names something that only an administrator creates"
RESTRICTED = "the level Restricted of the Pod Security Standards, which Pod Security Admission demands"
GROUPS = "how kube-scheduler takes the pods of a set together: it takes no more pods, and chooses no certain nodes"
UNCOUNTED = (
    "a failure that does not count, for which the Job starts a pod again: it is meant for disruptions, and backoffLimit"
    " promises what Kubernetes promises of it"
)
REFUSED = "the API server refuses it in a pod template"

EXEMPT: dict[str, str] = {
    # The set
    "spec.suspend": "a set that is suspended takes nothing",
    "spec.network.subdomain": NAMES,
    "spec.network.publishNotReadyAddresses": NAMES,
    "spec.coordinator.*": NAMES,
    "spec.startupPolicy.*": ORDER,
    "spec.executionPolicy.*": ORDER,
    "spec.executionPolicy.sequentialReplicatedJobs": ORDER,
    "spec.executionPolicy.replicatedJobsStatus": ORDER,
    "spec.successPolicy.*": DOWN,
    "spec.successPolicy.minSucceeded": DOWN,
    "spec.successPolicy.targetReplicatedJobs[]": NAMES,
    "spec.replicatedJobs[].elastic.min": DOWN,
    "spec.replicatedJobs[].elastic.max": "how far replicas may be raised: that number is judged whenever it changes",
    "spec.replicatedJobs[].spareFor": NAMES,
    "spec.failurePolicy.rules[].name": NAMES,
    "spec.failurePolicy.rules[].on*": "for which failures an action is taken: the action is judged whenever it is",
    "spec.failurePolicy.rules[].targetReplicatedJobs[]": "the same",
    "spec.failurePolicy.rules[].then[].afterRestarts": "when an action is taken: the action is judged whenever it is",
    "spec.failurePolicy.rules[].then[].withinSeconds": "the same",
    "spec.failurePolicy.failOn": DOWN,
    "spec.failurePolicy.inPlaceRestarts": "of the restarts that maxRestarts bounds, how many are in place",
    "spec.failurePolicy.startTimeoutSeconds": DOWN,
    "spec.failurePolicy.nodeFailure.afterSeconds": DOWN,
    "spec.failurePolicy.nodeFailure.forceDeletePods": "whose pods are ended is the author's own affair",
    "spec.failurePolicy.nodeFailure.whenNoCapacity.shrinkAfterSeconds": DOWN,
    "spec.failurePolicy.maintenance.taintKeys[]": "which nodes a set leaves is the author's own affair",
    "spec.failurePolicy.maintenance.notice.waitSeconds": DOWN,
    "spec.failurePolicy.maintenance.notice.signal": "the set's own agents send it to the set's own workers",
    "spec.failurePolicy.avoidNodes.*": "keeps away from nodes that failed the set, of which nobody names any",
    "spec.failurePolicy.avoidNodes.maxNodes": "the same",
    "spec.failurePolicy.agent.mode": "how the agent is run, whose image and requests are judged",
    "spec.failurePolicy.agent.probePort": "the same",
    "spec.failurePolicy.agent.imageVolume": "the same",
    "spec.scheduling.*": GROUPS,
    **{f"{level}.schedulingConstraints.topology[].key": GROUPS for level in _GROUP_LEVELS},
    "spec.scheduling.schedulingPolicy.gang.minGroupCount": GROUPS,
    "spec.scheduling.replicatedJobs[].schedulingPolicy.gang.minGroupCount": GROUPS,
    "spec.scheduling.replicatedJobs[].job.schedulingPolicy.gang.minCount": GROUPS,
    "spec.scheduling.replicatedJobs[].targetReplicatedJobs[]": NAMES,
    "spec.volumeClaimPolicies[].*": STORAGE,
    "spec.volumeClaimPolicies[].templates[].spec.resources.**": STORAGE,
    "spec.volumeClaimPolicies[].templates[].spec.selector.**": STORAGE,
    "spec.volumeClaimPolicies[].templates[].spec.storageClassName": ADMIN,
    "spec.volumeClaimPolicies[].templates[].status.*": "the API server drops a status that an author writes",
    "spec.volumeClaimPolicies[].templates[].status.allocatedResources{}": "the same",
    "spec.volumeClaimPolicies[].templates[].status.allocatedResourceStatuses{}": "the same",
    # A ReplicatedJob and its Jobs
    f"{_RJOB}.groupName": NAMES,
    f"{_RJOB}.dependsOn[].*": ORDER,
    f"{_RJOB}.exitCodePolicy.*": UNCOUNTED,
    f"{_RJOB}.template.metadata.*": NAMES,
    f"{_JOB}.activeDeadlineSeconds": DOWN,
    f"{_JOB}.completionMode": ORDER,
    f"{_JOB}.managedBy": ADMIN,
    f"{_JOB}.manualSelector": REFUSED,
    f"{_JOB}.maxFailedIndexes": DOWN,
    f"{_JOB}.podFailurePolicy.rules[].action": UNCOUNTED,
    f"{_JOB}.podFailurePolicy.rules[].on*": UNCOUNTED,
    f"{_JOB}.podReplacementPolicy": ORDER,
    f"{_JOB}.scheduling.*": GROUPS,
    f"{_JOB}.scheduling.schedulingPolicy.gang.minCount": GROUPS,
    f"{_JOB}.scheduling.schedulingConstraints.topology[].key": GROUPS,
    f"{_JOB}.selector.**": REFUSED,
    f"{_JOB}.successPolicy.*": DOWN,
    f"{_JOB}.successPolicy.rules[].succeededCount": DOWN,
    f"{_JOB}.suspend": "the JobSet decides it",
    f"{_JOB}.ttlSecondsAfterFinished": "the rule ttl is about the set, which its Jobs do not outlive",
    f"{_JOB}.template.metadata.*": NAMES,
    # Pods
    f"{_POD}.activeDeadlineSeconds": DOWN,
    **{f"{term}.matchFields[].operator": "a node may not be named, in whatever way" for term in _NODE_TERMS},
    **{f"{term}.matchFields[].values[]": "the same" for term in _NODE_TERMS},
    **{
        f"{_POD}.affinity.{kind}.preferredDuringSchedulingIgnoredDuringExecution[].weight": "how much it counts"
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
    },
    **{
        f"{term}.{field}": "which pods are near, whichever they are: the topologyKey is judged"
        for term in _POD_TERMS
        for field in (
            "labelSelector.**",
            "namespaceSelector.**",
            "namespaces[]",
            "matchLabelKeys[]",
            "mismatchLabelKeys[]",
        )
    },
    f"{_POD}.automountServiceAccountToken": OWN_NAMESPACE,
    f"{_POD}.dnsConfig.*": PROGRAM,
    f"{_POD}.dnsPolicy": PROGRAM,
    f"{_POD}.enableServiceLinks": PROGRAM,
    f"{_POD}.ephemeralContainers[].**": REFUSED,
    f"{_POD}.evictionResponders[].*": ORDER,
    f"{_POD}.evictionResponders[].priority": ORDER,
    f"{_POD}.hostAliases[].*": PROGRAM,
    f"{_POD}.hostAliases[].hostnames[]": PROGRAM,
    f"{_POD}.hostUsers": "true is what every pod without it has; false keeps more apart",
    f"{_POD}.hostname": NAMES,
    f"{_POD}.hostnameOverride": NAMES,
    f"{_POD}.imagePullSecrets[].name": OWN_NAMESPACE,
    f"{_POD}.os.name": "kube-scheduler does not look at it; fields of the other system are refused by the API server",
    f"{_POD}.preemptionPolicy": "the API server refuses another one than that of the PriorityClass",
    f"{_POD}.priority": "the API server refuses another one than that of the PriorityClass",
    f"{_POD}.readinessGates[].*": ORDER,
    f"{_POD}.restartPolicy": "failures in place count against backoffLimit",
    f"{_POD}.runtimeClassName": ADMIN,
    f"{_POD}.schedulerName": ADMIN,
    f"{_POD}.schedulingGates[].*": ORDER,
    f"{_POD}.schedulingGroup.*": GROUPS,
    f"{_POD}.securityContext.*": RESTRICTED,
    f"{_POD}.serviceAccount": OWN_NAMESPACE,
    f"{_POD}.serviceAccountName": OWN_NAMESPACE,
    f"{_POD}.setHostnameAsFQDN": NAMES,
    f"{_POD}.shareProcessNamespace": "among containers of one pod",
    f"{_POD}.subdomain": NAMES,
    f"{_POD}.terminationGracePeriodSeconds": ORDER,
    f"{_POD}.tolerations[].tolerationSeconds": "for how long: a taint that may be tolerated may be so for ever",
    f"{_POD}.topologySpreadConstraints[].*": "spreads pods, counting those of the own namespace alone",
    f"{_POD}.topologySpreadConstraints[].labelSelector.**": "the same",
    f"{_POD}.topologySpreadConstraints[].maxSkew": "the same",
    f"{_POD}.topologySpreadConstraints[].minDomains": "the same",
    f"{_POD}.topologySpreadConstraints[].nodeAffinityPolicy": "the same",
    f"{_POD}.topologySpreadConstraints[].nodeTaintsPolicy": "the same",
    f"{_POD}.topologySpreadConstraints[].topologyKey": "the same",
    f"{_POD}.volumes[].*": OWN_NAMESPACE,
    f"{_POD}.volumes[].emptyDir.sizeLimit": "counts as memory or ephemeral-storage of the containers, whose limits hold",
    f"{_POD}.volumes[].ephemeral.volumeClaimTemplate.spec.resources.**": STORAGE,
    f"{_POD}.volumes[].ephemeral.volumeClaimTemplate.spec.selector.**": STORAGE,
    f"{_POD}.volumes[].ephemeral.volumeClaimTemplate.spec.storageClassName": ADMIN,
    f"{_POD}.volumes[].image.pullPolicy": "the image itself is judged",
    f"{_POD}.volumes[].persistentVolumeClaim.claimName": STORAGE,
    f"{_POD}.volumes[].projected.sources[].clusterTrustBundle.labelSelector.**": ADMIN,
    f"{_POD}.volumes[].projected.sources[].podCertificate.maxExpirationSeconds": OWN_NAMESPACE,
    f"{_POD}.volumes[].rbd.image": "a block device of a Ceph cluster, for which the pod needs its key: no container image",
    f"{_POD}.volumes[].scaleIO.storageMode": STORAGE,
    f"{_POD}.volumes[].scaleIO.storagePool": STORAGE,
    f"{_POD}.volumes[].vsphereVolume.storagePolicyID": STORAGE,
    f"{_POD}.volumes[].vsphereVolume.storagePolicyName": STORAGE,
    f"{_POD}.volumes[].downwardAPI.items[].resourceFieldRef.resource": PROGRAM,
    f"{_POD}.volumes[].projected.sources[].downwardAPI.items[].resourceFieldRef.resource": PROGRAM,
    # Containers
    **{
        f"{holder}.{field}": reason
        for holder in (_CONTAINER, _INIT)
        for field, reason in {
            "name": NAMES,
            "args[]": PROGRAM,
            "command[]": PROGRAM,
            "env[].*": PROGRAM,
            "env[].valueFrom.resourceFieldRef.resource": PROGRAM,
            "envFrom[].*": OWN_NAMESPACE,
            "imagePullPolicy": "which copy of the image is run: imagesByDigest pins that",
            "lifecycle.*": PROGRAM,
            "livenessProbe.*": PROGRAM,
            "readinessProbe.*": PROGRAM,
            "startupProbe.*": PROGRAM,
            "ports[].*": "ports of the pod's own network, unless hostPort says more",
            "ports[].hostIP": "of a hostPort, which is judged",
            "resizePolicy[].resourceName": "what a resize does, which is an update of a pod, not of its JobSet",
            "resizePolicy[].restartPolicy": "the same",
            "restartPolicyRules[].*": UNCOUNTED,
            "restartPolicyRules[].action": UNCOUNTED,
            "securityContext.*": RESTRICTED,
            "securityContext.allowPrivilegeEscalation": RESTRICTED,
            "securityContext.capabilities.drop[]": "takes capabilities away",
            "stdin": PROGRAM,
            "stdinOnce": PROGRAM,
            "tty": PROGRAM,
            "terminationMessagePath": PROGRAM,
            "terminationMessagePolicy": PROGRAM,
            "volumeDevices[].*": STORAGE,
            "volumeDevices[].devicePath": STORAGE,
            "volumeMounts[].*": "the volume itself is judged",
            "workingDir": PROGRAM,
        }.items()
    },
    f"{_CONTAINER}.restartPolicy": UNCOUNTED,
}

EXEMPT |= {
    f"{holder}.resourceClaims[].name": "the claim itself is judged"
    for holder in (
        _POD,
        f"{_JOB}.scheduling",
        "spec.scheduling.replicatedJobs[]",
        "spec.scheduling.replicatedJobs[].job",
    )
} | {
    f"{holder}.resources.claims[].{field}": "one of the claims of the pod, which are judged"
    for holder in (_POD, _CONTAINER, _INIT)
    for field in ("name", "request")
}
