"""The storm: a real deployment under load and under attack, and a checker of what it did.

`plan` says which faults, `deployment` is what they strike, `adversary` strikes, `load` is the client (a process of its
own), `records` is what was written down meanwhile, `checker` judges it. `make storm` runs the long form.
"""
