"""Webhooks: addresses of a tenant that other services post to. Pure; operations/webhooks.py is the rest.

terms.py       what a webhook takes, from whom, and what it answers, as the store keeps it
delivery.py    a request of another service
schemes.py     who signs how: the headers of each scheme, and what the signature covers
signatures.py  whether a delivery is of somebody who has the secret
arrivals.py    what came to them lately and what became of it, in memory
payloads.py    the payload that a delivery becomes, and the answer that a result becomes

docs/webhooks.md explains the model.
"""
