"""`jobset ui`: serves the page that the package `ui` makes."""
