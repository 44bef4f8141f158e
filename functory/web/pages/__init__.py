"""The pages that people look at, under `/ui`: rendered on the server, and usable without a script.

    mount.py      all routes of the pages on the application
    declare.py    a page is declared by a decorated function: path, scope; what it returns is a template and its values
    endpoint.py   from a page to what aiohttp calls: host, session, tenant, form, then the function, then HTML
    call.py       one request for a page, and what all pages share
    fence.py      which hosts and origins may reach a page
    sessions.py   who is signed in; signin.py the form for it
    live.py       the same page again whenever it changes, as server-sent events, shared by all who look at it
    assets.py     templates, styles and scripts, loaded once
    inert.py      tenants' bytes as text that does nothing; words.py numbers and times; charts.py drawings
    board.py, jobtype.py, job.py, joblist.py, failures.py, editor.py, replay.py, operator.py, tenants.py    the pages
    recent.py     what the pages of a tenant share: counters and the last hour, read at most once a second
    spans.py      the last minutes in as few buckets as can be

Everything that a page shows of a tenant is escaped by the templates; nothing here builds HTML by hand but `charts.py`,
from numbers.
"""
