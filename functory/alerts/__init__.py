"""Alert rules: what a tenant wants to be told of, and when it is told.

terms.py      what a rule watches for, as the store keeps it
standing.py   how a rule stands: its phase, and a notification on its way
judgement.py  whether a rule's condition holds, and what follows from that; pure
words.py      a condition in words, and the payload of a notification

docs/alerts.md explains the model.
"""
