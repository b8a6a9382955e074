"""`jobset init`: a manifest for a framework, or from a PyTorchJob, an MPIJob or a Job."""
