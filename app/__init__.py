"""The composition root: settings, wiring, the command line. Everything meets here and nothing imports it."""
