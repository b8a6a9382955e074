"""The rules of the Job API (batch/v1) as tables: they find faults that the API server would refuse, without a request.

Messages are those of the API server. Only rules that users are likely to break are here: fields of rare volume types,
of Windows and of feature gates that are off are left to the API server. Values of a wrong type (a text where a number
belongs, a quantity that cannot be read) are left to the schema of the CRD. Pure, and linear in the size of the Job.
tests/kube/model/job_rules compare each rule with the recorded answers of a real API server.
"""
