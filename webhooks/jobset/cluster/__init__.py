"""What admission asks the cluster about a JobSet, and what the answers mean."""
