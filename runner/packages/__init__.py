"""Packages for handlers: resolved into a lock once, installed into read-only trees, both in a build sandbox.

source.py    what the runner asks for
provider.py  the answer: locks, trees that are ready, builds under way and what became of them
sandbox.py   one build: starts `handlers/bootstraps/packages.py`, bounds it in time and size, says what went wrong
tools.py     uv and npm: what a build runs, calls and gives
frames.py    what that program sends
trees.py     the folder of trees: written whole or not at all, found again, collected
"""
