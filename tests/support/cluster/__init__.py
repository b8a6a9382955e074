"""What tests do with a real control plane."""
