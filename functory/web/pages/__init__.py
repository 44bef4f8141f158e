"""The pages that people look at, under `/ui`: rendered on the server, and usable without a script.

    mount.py            all routes of the pages on the application
    declaration.py      a page is declared by a decorated function: path, scope; it returns a template and its values
    endpoint.py         from a page to what aiohttp calls: host, session, tenant, form, then the function, then HTML
    call.py             one request for a page, and what all pages share
    cookies.py          our own cookies in a request
    allowed_origins.py  which hosts and origins may reach a page
    signin.py           the form to sign in with a key; throttle.py how often
    unknown.py          addresses that no page has
    notices.py          what a page says after a form was sent
    live.py             the same page again whenever it changes, as server-sent events, shared by all who look at it
    assets.py           templates, styles and scripts, loaded once
    line_diff.py        what a version changed; error_line.py where a try failed; folder_files.py the files of a folder
    typed_text.py       a text that went through a form, with the line ends that it had
    inert_text.py       tenants' bytes as text that does nothing; number_text.py numbers and times; charts.py drawings
    recent.py           what the pages of a tenant share: counters and the last hour, read at most once a second
    spans.py            the last minutes in the fewest buckets

The pages are board.py, jobtype.py, job.py, job_list.py, failures.py, consumers.py, editor.py, version.py, post_job.py,
bulk.py, replay.py, schedules.py, schedule_form.py, workers.py, rates.py, secrets.py, alerts.py, webhooks.py,
operator.py and tenants.py. The editor component that browsers load is built from codemirror/ (`make editor`).

The templates escape everything that a page shows of a tenant. Only `charts.py` builds HTML by hand, from numbers.
"""
