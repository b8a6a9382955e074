"""Keys of labels and annotations, types and reasons of conditions, and other texts that are part of the API.

Clients select and match by these texts, so a change here breaks clients. See docs/reference/names-and-labels.md for
keys, docs/reference/lifecycle.md for conditions and events.
"""

GROUP = "jobset.x-k8s.io"
VERSION = "v1alpha2"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "JobSet"
PLURAL = "jobsets"
CONTROLLER_NAME = "jobset.sigs.k8s.io/jobset-controller"
MANAGER_NAMESPACE = "jobset-system"
"""The namespace into which `manifests/` installs the manager."""
MANAGER_SELECTOR = "control-plane=controller-manager"
"""The selector of the manager's pods, however they were installed."""

# These keys are labels and annotations of the Job and of its pod template.
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB_NAME = "jobset.sigs.k8s.io/replicatedjob-name"
RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
JOB_RESTART_ATTEMPT = "jobset.sigs.k8s.io/job-restart-attempt"
REPLICATED_JOB_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
GLOBAL_REPLICAS = "jobset.sigs.k8s.io/global-replicas"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
JOB_KEY = "jobset.sigs.k8s.io/job-key"
JOB_GLOBAL_INDEX = "jobset.sigs.k8s.io/job-global-index"
GROUP_NAME = "jobset.sigs.k8s.io/group-name"
GROUP_REPLICAS = "jobset.sigs.k8s.io/group-replicas"
JOB_GROUP_INDEX = "jobset.sigs.k8s.io/job-group-index"
COORDINATOR = "jobset.sigs.k8s.io/coordinator"

# These keys are annotations of the Job and of its pod template.
EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"

# Other keys.
PRIORITY = "jobset.sigs.k8s.io/priority"
NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
NO_SCHEDULE_TAINT = "alpha.jobset.sigs.k8s.io/no-schedule"
EXECUTION_ATTEMPT = "jobset.sigs.k8s.io/execution-attempt"
IN_PLACE_RESTART_ATTEMPT = "jobset.sigs.k8s.io/in-place-restart-attempt"
IN_PLACE_RESTART_FAILURE = "jobset.sigs.k8s.io/in-place-restart-failure"
"""Annotation of a pod: how its worker failed. The agent writes it, and keeps running. Not known to the Go JobSet."""
MAINTENANCE_ACKNOWLEDGED = "jobset.sigs.k8s.io/maintenance-acknowledged"
"""Annotation of a pod, from its agent: the notice for which its worker is ready to move. Not known to the Go JobSet."""
DISABLE_IN_PLACE_RESTART = "jobset.sigs.k8s.io/disable-in-place-restart"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_UID = "batch.kubernetes.io/controller-uid"
GROUP_TEMPLATE = "scheduling.k8s.io/group-template-name"
"""Annotation of a Job: the template from which the PodGroup of its pods was made."""
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
JOB_TRACKING = "batch.kubernetes.io/job-tracking"
"""Finalizer of the pods of a Job, until the Job controller has counted how they ended."""
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
"""Label by which Kueue takes a JobSet into a queue."""
KUEUE_JOB_UID = "kueue.x-k8s.io/job-uid"
"""Label of a Workload of Kueue: the UID of its owner."""

# These keys are for exclusive placement, and not known to the Go JobSet.
PLACEMENT_GATE = "jobset.sigs.k8s.io/exclusive-placement"
"""Scheduling gate of a follower whose leader has no domain yet."""
AWAITS_LEADER = "jobset.sigs.k8s.io/awaits-leader"
"""Label, "true", of the pods with `PLACEMENT_GATE`, by which the controller watches them."""

SPARES = "jobset.sigs.k8s.io/spares"
"""Label of the pods of a ReplicatedJob that has spares, and of its spare pods: the name of that ReplicatedJob. Not
known to the Go JobSet."""
SPARE_GATE = "jobset.sigs.k8s.io/spare-place"
"""Scheduling gate of a pod that gets the place of a spare."""

OUR_GATES = (PLACEMENT_GATE, SPARE_GATE)
"""Scheduling gates that only this program removes."""

NOT_READY = "jobset.sigs.k8s.io/manager-not-ready"
"""Annotation of the manager's lease: which manager is not ready, since when, and why. Not known to the Go JobSet."""

AVOIDED_NODES = "jobset.sigs.k8s.io/avoided-nodes"
"""Annotation of a Job: names of the nodes that its pods avoid, separated by commas. Not known to the Go JobSet."""

IGNORE_WARNINGS = "jobset.sigs.k8s.io/ignore-warnings"
"""Annotation of a JobSet: ids of rules whose warnings are left out. Not known to the Go JobSet."""

SKIP_SUSPEND = "jobset.sigs.k8s.io/skip-suspend-reconciliation"
"""Annotation of a JobSet, "true": another controller suspends and resumes its Jobs. Proposed for the Go JobSet."""
DELETE_ON_SUSPEND = "jobset.sigs.k8s.io/delete-jobs-on-suspend"
"""Annotation of a JobSet, "true": a suspension deletes the Jobs that have started. Not known to the Go JobSet."""

PLACEHOLDER = "jobset.sigs.k8s.io/placeholder"
"""Label, "true", of a Job, and its pods, that reserves capacity for a Job of a set that may grow. Not known to the Go
JobSet."""

REMOVED_FIELDS = "jobset.sigs.k8s.io/removed-fields"
"""Annotation of a JobSet: fields of the spec that are absent on purpose. Not known to the Go JobSet."""

OWN_FIELDS_COPY = "jobset.sigs.k8s.io/own-fields"
"""Annotation of a JobSet in a queue: its fields that the Go JobSet does not know, for copies in other clusters."""
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""spec.managedBy of a JobSet that Kueue has copied to another cluster, where it runs."""
MULTIKUEUE_ORIGIN = "kueue.x-k8s.io/multikueue-origin"
"""Label of a JobSet that Kueue has copied from another cluster."""

OUR_PREFIXES = ("jobset.sigs.k8s.io/", "alpha.jobset.sigs.k8s.io/")
"""The prefixes of the keys of all labels and annotations of JobSets."""
SET_BY_USERS = (
    EXCLUSIVE_TOPOLOGY,
    NODE_SELECTOR_STRATEGY,
    DISABLE_IN_PLACE_RESTART,
    IGNORE_WARNINGS,
    SKIP_SUSPEND,
    DELETE_ON_SUSPEND,
    REMOVED_FIELDS,
)
"""Keys with our prefixes that users write."""
OUR_KEYS = frozenset(
    text for text in tuple(globals().values()) if isinstance(text, str) and text.startswith(OUR_PREFIXES)
) - {CONTROLLER_NAME, NOT_READY, *OUR_GATES}
"""All keys of labels and annotations with our prefixes that this program or the Go JobSet writes or reads."""

# Condition types.
COMPLETED = "Completed"
FAILED = "Failed"
SUSPENDED = "Suspended"
RESTARTING = "RestartingJobSet"
STARTUP_IN_PROGRESS = "StartupPolicyInProgress"
STARTUP_COMPLETED = "StartupPolicyCompleted"
GROUPS_READY = "SchedulingObjectsReady"
GROUPS_SCHEDULED = "PodGroupsInitiallyScheduled"

# Reasons of Warning events that `jobset explain` looks for.
JOB_CREATION_FAILED = "JobCreationFailed"
SERVICE_CREATION_FAILED = "HeadlessServiceCreationFailed"
PLACEMENT_PENDING = "ExclusivePlacementPending"
PODS_UNSCHEDULABLE = "PodsUnschedulable"
JOBS_SUSPENDED_AGAIN = "JobsSuspendedAgain"

# Condition types of finished batch/v1 Jobs.
JOB_COMPLETE = "Complete"
JOB_FAILED = "Failed"

# Label with its name that the API server sets on every namespace.
NAMESPACE_NAME = "kubernetes.io/metadata.name"

# Condition type of batch/v1 Jobs. The Job controller sets it to True or False when it has suspended or resumed the Job.
JOB_SUSPENDED = "Suspended"

# spec.managedBy of Jobs that the Job controller of Kubernetes runs. It may also be absent.
JOB_CONTROLLER = "kubernetes.io/job-controller"

# Condition type of batch/v1 Jobs that are bound to fail, while their pods still end.
JOB_FAILURE_TARGET = "FailureTarget"

# Name of the lease for leader election. The Go manager uses the same lease.
LEASE = "6d4f6a47.jobset.x-k8s.io"

MAX_REPLICAS = 1_000_000
"""The CRD allows at most this many Jobs of one ReplicatedJob, which is more than any cluster can run."""
