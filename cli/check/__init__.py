"""`jobset validate` and `jobset render`: print the findings and objects that `authoring` makes."""
