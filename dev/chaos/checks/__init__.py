"""What has to be true after a run: one file per promise. Pure: parsed records in, violations out."""
