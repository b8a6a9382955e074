"""The dashboard as a picture, with the metrics of a short run on a local cluster: `python -m dev.bench.dashboard`."""
