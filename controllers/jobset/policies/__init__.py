"""The policies of a JobSet, one file each, all pure: they read an observation and change a draft of the status."""
