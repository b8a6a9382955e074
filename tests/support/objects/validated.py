"""Manifests for tests of `jobset validate`."""

import yaml

from tests.support.objects.jobsets import jobset

GOOD = yaml.safe_dump(jobset())
TYPO = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
spec:
  sucessPolicy: {operator: All}
  replicatedJobs:
  - name: workers
    replicas: -1
    template:
      spec:
        template:
          spec:
            containers: [{name: main, image: busybox}]
"""
WARNED = yaml.safe_dump(jobset(failurePolicy={"maxRestarts": -1}))
