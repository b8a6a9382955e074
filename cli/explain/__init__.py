"""The command `jobset explain`, which prints why JobSets wait or have failed. The package `diagnose` finds it out."""
