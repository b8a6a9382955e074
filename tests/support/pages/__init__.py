"""The pages of docs/ as tests: their files, commands and scenes."""
