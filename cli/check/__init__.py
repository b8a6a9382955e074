"""`jobset validate` and `jobset render`: what `authoring` finds in manifests, or makes of them, written down."""
