"""`jobset validate` and `jobset render`: check and render manifests before they are applied.

manifest_files finds and reads, documents parses (trees and places keep where every value stands), checks judges with
the engine of the webhook, server_checks asks a cluster, findings and sarif write it down.
"""
