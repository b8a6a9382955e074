"""HTTP/1.1 servers inside our own event loop: for the webhooks, the probes and the metrics.

The caller passes the application.
"""
