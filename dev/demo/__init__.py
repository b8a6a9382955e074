"""`jobset demo`: stories of JobSets, played on a local control plane and checked."""
