"""JobSets from the objects of other controllers, and from the examples of frameworks."""
