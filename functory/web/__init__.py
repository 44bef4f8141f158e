"""The HTTP interface: parse, call one operation, render. docs/http-api.md is its reference.

    listen.py     sockets, limits of connections; connection.py slow clients; express.py the short way of plain POSTs
    edge.py       what every request passes: request id, errors as JSON, headers, counting
    routes.py     a route is declared by a decorated function: path, scope, and its types, which are also its schema
    endpoint.py   from a route to what aiohttp calls: key, rate, query and body, then the function, then JSON
    jobs.py, handlers.py, results.py, admin.py, legacy.py, meta.py     the routes

`make_app` puts them together; nothing else of the daemon imports aiohttp but the client and the http engine.
"""
