"""What Kueue and Kubeflow Trainer send about JobSets: recorded from the real programs, played by end-to-end tests."""
