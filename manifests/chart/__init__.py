"""The Helm chart in `charts/jobset`, generated from the definitions that install.yaml is generated from.

`values` has the values and their schema, `objects` the templates of the installed objects, `extras` those that only the
chart has, `templates` how a template is written, `files` which file has what.
"""
