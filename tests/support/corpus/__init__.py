"""Manifests, mistakes and recorded answers that several rooms are held to."""
