"""`jobset explain`: why a JobSet is not where it should be, in plain words.

facts reads the cluster into the records of seen, survey sorts the Jobs, reasons asks the causes (of_set, of_jobs,
of_pods, of_domains) what to say, show writes it. A new cause is a function more in `reasons.CAUSES`.
"""
