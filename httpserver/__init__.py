"""HTTP/1.1 servers of the webhooks, the probes and the metrics, which run in the event loop of the program."""
