"""For developers: local control plane, simulated API server, benchmarks, chaos, tools of the build."""
