"""The command line. Each command has a file or a folder, which parses flags, calls other packages and prints."""
