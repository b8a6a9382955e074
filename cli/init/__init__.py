"""The command `jobset init`, which prints a manifest for a framework or converts objects of other kinds."""
