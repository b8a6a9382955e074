"""What to do about one JobSet: pure functions from an observation to a plan. Imports only `api`."""
