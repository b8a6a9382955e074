"""The object model of Kubernetes, pure: metadata, field errors, quantities, names, images, rules of the Job API."""
