"""The rules that the API server holds a batch/v1 Job to, as tables: what it would refuse, in its own words, unasked.

Those that people break: fields of rare volume types, of Windows and of gates that are off are left to the API server.
What the types say (a text where a number belongs, a quantity that is none) is left to the schema of the CRD. Pure, and
linear in the size of the Job. tests/api/job_rules hold each rule to the answers of a real API server.
"""
