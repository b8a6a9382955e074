"""The steps of a plan, each in the file of its name. `controllers.planning.plan.STEPS` has their order."""
