"""Tools for people who change the code. They are not part of the program, and are not installed."""
