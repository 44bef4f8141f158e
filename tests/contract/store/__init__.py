"""The contract of the store. No back end is named here: tests/support/stores.py has the table of them."""
