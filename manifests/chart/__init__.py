"""The Helm chart in `charts/jobset`, as far as it is generated from the definitions of install.yaml.

`values` has the values and their schema, `templates` the templates of installed objects, `files` which file has what.
"""
