"""Generic Kubernetes runtime: transport, client, caches, work queue, controller loop, leader election, events.

Knows nothing of JobSet: it must stay usable for any resource.

No write loses a field that this program does not know: typed objects are only ever read. `Client` writes JSON that the
caller built (a new object), patches (merge, JSON, strategic, apply) or raw bytes, and `Client.replace` refuses structs.
"""
