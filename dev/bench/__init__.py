"""Benchmarks: this manager beside others and beside bare clients."""
