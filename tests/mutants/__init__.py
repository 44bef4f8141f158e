"""Mutants: bugs that would lose or double work or let somebody in, put into a copy of the code one at a time.

A mutant that no test near it sees is a hole in the tests. `make mutants` runs them all (a night's work on two cores),
`make mutants ONLY=journal` an area, `make mutants ONLY='reader skips'` those whose file or name contains the words.
Kills are remembered in .cache/mutants: a mutant is tried again only when its row, its file or its tests have changed.

mutant.py     what a mutant is
tables/       the mutants, a file for each area
kills.py      the kills of earlier runs
workplace.py  a copy of the tree, a mutant put into it, the tests run on it
__main__.py   the command
"""
