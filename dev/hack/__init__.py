"""Tools for people who change the code. Not part of the program, and not installed."""
