"""HTTP/1.1 servers inside our own event loop: for the webhooks, the probes and the metrics.

Must not know what is served: the caller passes the application.
"""
