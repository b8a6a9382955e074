"""Generates the files of the Helm chart in `charts/jobset` from the objects of install.yaml.

`values` has the values and their schema, `templates` the templates of installed objects, `files` the list of files.
"""
