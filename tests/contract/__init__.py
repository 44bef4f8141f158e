"""One suite per protocol, run on every back end; no back end is named in it."""
