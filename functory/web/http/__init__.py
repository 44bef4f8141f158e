"""What every request passes, whatever it asks for.

routes.py         a route is declared by a decorated function; path_index.py which of them a path belongs to
edge.py           request id, errors as JSON, counting; forwarded.py whose address it is;
                  client_networks.py what an address counts as
endpoint.py       from a route to what aiohttp calls: key, rate, query and body, then the function, then JSON
presence.py       whether the client is still there
request_rates.py  how many requests a key may make
validation_words.py  what is wrong with a query or a body, in the words of the interface
json_faults.py    why a text is not JSON
bounded_json.py   a large text is taken apart before it is built
body.py           reads a body; turns.py large bodies take turns; body_room.py how many are in memory
form.py           the fields of a form
answers.py        values and errors as JSON; outflow.py large answers in pieces, not many at once
event_streams.py  streams of events to programs; progress.py the steps of a request that takes long
stream_seats.py   how many streams are open at once: of a key, of a tenant, in total
description.py    the description of all routes, made when it is asked for
metrics.py        counts of requests, and the text of /metrics; tenant_metrics.py that of /{tenant}/metrics;
                  prometheus_text.py the format of both
unknown_paths.py  paths that no route has
settings.py       what the operator may set
"""
