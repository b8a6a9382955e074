"""The composition root: settings, wiring, the command line. It may import every package; only bench imports it."""
