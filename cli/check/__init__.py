"""`jobset validate` and `jobset render`: print the findings and the objects that `authoring` makes of manifests."""
