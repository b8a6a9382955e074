"""Models of a cluster, in memory and in virtual time, and what judges a controller's writes there."""
