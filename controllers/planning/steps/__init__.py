"""The steps of a plan, one to a file of its name. `controllers.planning.plan.STEPS` has their order."""
