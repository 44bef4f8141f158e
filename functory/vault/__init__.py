"""Tenants' secrets: sealed in the store under the operator's keys, opened for contexts.

key_file.py   the operator's keys: read, or made at first use
sealing.py    one value sealed and opened; which key, which tenant, name and version
place.py      where the keys are, by the settings
vault.py      the secrets of a store, for operations and for the runner
"""
