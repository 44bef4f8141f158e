"""The network by name: the proxy through which contexts call the hosts that their handlers list.

`head.py` and `request_body.py` read what a context sends, `client_hello.py` what TLS tells in clear, `answer.py` the
head of an answer; all four are pure. `meters.py` holds the quotas and counts. `connection.py` is one connection, from
its first byte to its last, `side.py` one of its ends, and `proxy.py` the listeners, one for each context. What may be
called is decided by `handlers.hosts` and `runner.targets`.
"""
