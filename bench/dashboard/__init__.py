"""The dashboard as a picture, with the metrics of a short run on a local control plane: `python -m bench.dashboard`."""
