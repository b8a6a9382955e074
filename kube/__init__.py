"""Generic Kubernetes runtime: transport, client, caches, work queue, controller loop, leader election, events.

It does not depend on the JobSet API. No write loses a field that this program does not know: typed objects are only
read. `Client` writes JSON that the caller built (a new object), patches (merge, JSON, strategic, apply) or raw bytes,
and `Client.replace` refuses structs.
"""
