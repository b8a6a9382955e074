"""The composition root of the manager: settings, stages, wiring, metrics, probes, logs."""
