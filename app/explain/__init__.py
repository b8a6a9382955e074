"""`jobset explain`: why a JobSet waits or has failed, in plain words.

gather reads the cluster into the records of facts, survey sorts the Jobs, reasons asks the causes (jobset_causes,
job_causes, pod_causes, group_causes) for findings, show writes them. A new cause is one function in `reasons.CAUSES`.
"""
