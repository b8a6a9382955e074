"""The generated pages of docs/: rules, fields, settings, policies."""
