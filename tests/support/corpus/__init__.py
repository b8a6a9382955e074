"""Manifests, mistakes and recorded answers that several packages are held to."""
