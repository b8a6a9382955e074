"""The commands that read or change one JobSet with the rights of the user, such as `jobset logs` and `suspend`."""
