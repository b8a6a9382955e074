"""The reconcile loop: it compares the wanted state with the observed one and writes the difference."""
