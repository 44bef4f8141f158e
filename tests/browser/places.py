"""Every page there is, by its address: for the pictures, and for the checks that hold for all of them."""

from typing import Final, NamedTuple


class Place(NamedTuple):
    """who: whose session looks at it; nobody's when empty. `{failed}` in the path is a job of acme that failed."""

    name: str
    path: str
    who: str = "acme"


PLACES: Final = (
    Place("signin", "/ui/signin?next=/ui/t/acme", ""),
    Place("scoreboard", "/ui/t/acme"),
    Place("empty", "/ui/t/hooli", "hooli"),
    Place("jobtype", "/ui/t/acme/type/thumbnail"),
    Place("job", "/ui/t/acme/job/{failed}"),
    Place("jobs", "/ui/t/acme/jobs?code=failed,abandoned"),
    Place("waiting", "/ui/t/acme/jobs?state=waiting"),
    Place("failures", "/ui/t/acme/failures"),
    Place("editor", "/ui/t/acme/type/thumbnail/edit?job={failed}"),
    Place("new", "/ui/t/acme/new"),
    Place("version", "/ui/t/acme/type/thumbnail/version/2"),
    Place("replay", "/ui/t/acme/replay?type=thumbnail&failed=yes&age=1d&limit=1000&rate_per_s=50&look=1"),
    Place("operator", "/ui/operator", "operator"),
    Place("tenant", "/ui/operator/tenants/globex", "operator"),
    Place("queues", "/ui/operator/queues", "operator"),
    Place("daemons", "/ui/operator/daemons", "operator"),
    Place("audit", "/ui/operator/audit", "operator"),
    Place("looking", "/ui/t/acme", "operator"),
    Place("trouble", "/ui/t/acme/job/nonsense"),
)
