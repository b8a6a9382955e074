"""The commands `jobset policy ...`. Some need no cluster, others read the policies of a cluster."""
