"""The commands `jobset validate` and `jobset render`, which print findings and objects of `authoring`."""
