"""What may change in a stored JobSet. Pure."""
