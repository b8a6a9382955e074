"""Benchmarks, which compare this manager with other managers and with a client that makes only the needed calls."""
