"""The groups that kube-scheduler schedules by: Workload, CompositePodGroup and PodGroup objects of JobSets."""
