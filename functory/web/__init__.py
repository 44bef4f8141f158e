"""The HTTP interface: parse, call one operation, render. docs/http-api.md is its reference.

    listener.py     sockets, limits of connections; addresses.py how many a client has
    closing.py      the end of listening
    connection.py   one connection: slow clients; express.py the fast path of plain POSTs
    http_faults.py  what is wrong with a request that is not HTTP
    app.py          all routes on one service
    pages/          the scoreboard in a browser
    api/            the routes of the JSON interface
    http/           what every request passes
    waiting_room.py what is answered before the store was ever there

Nothing else of the daemon imports aiohttp but the client and the http engine.
"""
