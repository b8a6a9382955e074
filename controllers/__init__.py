"""The reconcile loop: what is wanted, what is there, and the writes that lead from one to the other."""
