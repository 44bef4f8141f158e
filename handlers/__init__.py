"""What tenants register: the handler model, its validation, and the languages. Imports only the vocabulary.

model.py       the handler as a value, in memory and as JSON
validation.py  reads strictly what a tenant sends
languages.py   the table of languages: what runs a body, within which bounds; bootstraps/ the programs that run it
folders/       handlers that are folders: how an archive of one is read
packages.py    the packages that a handler asks for, and their lock; npm.py the same for node
hosts.py       hosts by name, as handlers list them and operators allow them
toml_text.py   TOML that a tenant wrote
errors.py      what can be wrong with a handler
"""
