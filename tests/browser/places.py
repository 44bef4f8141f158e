"""Every page there is, by its address: for the pictures, and for the checks that hold for all of them."""

import hashlib
import hmac
from typing import Final, NamedTuple

import aiohttp

from functory.client import Client
from tests.support.polling import until


class Place(NamedTuple):
    """who: whose session looks at it; nobody's when empty. In a path, `{failed}` is a job of acme that failed, and
    `{retrying}` one that did and will run again."""

    name: str
    path: str
    who: str = "acme"


PLACES: Final = (
    Place("signin", "/ui/signin?next=/ui/t/acme", ""),
    Place("scoreboard", "/ui/t/acme"),
    Place("empty", "/ui/t/hooli", "hooli"),
    Place("jobtype", "/ui/t/acme/type/thumbnail"),
    Place("job", "/ui/t/acme/job/{failed}"),
    Place("retrying", "/ui/t/acme/job/{retrying}"),
    Place("jobs", "/ui/t/acme/jobs?code=failed,abandoned"),
    Place("waiting", "/ui/t/acme/jobs?state=waiting"),
    Place("not-found", "/ui/t/acme/jobs?unique=order-17&state=archived"),
    Place("delete", "/ui/t/acme/delete?type=thumbnail&failed=yes&age=any&look=1"),
    Place("schedules", "/ui/t/acme/schedules"),
    Place("no-schedules", "/ui/t/hooli/schedules", "hooli"),
    Place("failures", "/ui/t/acme/failures"),
    Place("consumers", "/ui/t/acme/consumers"),
    Place("consumer", "/ui/t/acme/consumers/verify"),
    Place("no-consumers", "/ui/t/hooli/consumers", "hooli"),
    Place("workers", "/ui/t/acme/workers"),
    Place("rates", "/ui/t/acme/rates?domain=mail:ada"),
    Place("secrets", "/ui/t/acme/secrets"),
    Place("alerts", "/ui/t/acme/alerts"),
    Place("alert", "/ui/t/acme/alerts/thumbnails-fail"),
    Place("no-alerts", "/ui/t/hooli/alerts", "hooli"),
    Place("webhooks", "/ui/t/acme/webhooks"),
    Place("webhook", "/ui/t/acme/webhooks/github"),
    Place("webhook-hmac", "/ui/t/acme/webhooks/shop"),
    Place("no-webhooks", "/ui/t/hooli/webhooks", "hooli"),
    Place("editor", "/ui/t/acme/type/thumbnail/edit?job={failed}"),
    Place("new", "/ui/t/acme/new"),
    Place("post", "/ui/t/acme/type/thumbnail/post"),
    Place("post-early", "/ui/t/acme/type/nobody/post"),
    Place("no-jobs", "/ui/t/hooli/jobs", "hooli"),
    Place("no-failures", "/ui/t/hooli/failures", "hooli"),
    Place("no-replay", "/ui/t/hooli/replay?failed=yes&look=1", "hooli"),
    Place("no-type", "/ui/t/hooli/type/nothing", "hooli"),
    Place("version", "/ui/t/acme/type/thumbnail/version/2"),
    Place("replay", "/ui/t/acme/replay?type=thumbnail&failed=yes&age=1d&limit=1000&rate_per_s=50&look=1"),
    Place("cancel", "/ui/t/acme/cancel?type=*&waiting=yes&deferred=yes&look=1"),
    Place("delete", "/ui/t/acme/delete?type=thumb*&failed=yes&age=any&look=1"),
    Place("no-delete", "/ui/t/hooli/delete?type=*&ok=yes&age=over-30d&look=1", "hooli"),
    Place("operator", "/ui/operator", "operator"),
    Place("tenant", "/ui/operator/tenants/globex", "operator"),
    Place("queues", "/ui/operator/queues", "operator"),
    Place("daemons", "/ui/operator/daemons", "operator"),
    Place("audit", "/ui/operator/audit", "operator"),
    Place("looking", "/ui/t/acme", "operator"),
    Place("trouble", "/ui/t/acme/job/nonsense"),
)


async def make_schedules(acme: Client) -> None:
    await acme.put_handler("report", "python", "return 'sent'")
    await acme.add_jobs("report", ["sales"], unique="sales report", repeat="0 9 * * MON-FRI Europe/Berlin")
    (hourly,) = (await acme.add_jobs("report", ["stock"], unique="stock report", repeat="FINISHED, +1 HOUR")).ids or []

    async def has_run() -> bool:
        return (await acme.get_job(hourly)).code == "ok"

    await until(has_run)


async def make_alerts(acme: Client) -> None:
    fails = {"type": "thumb*", "notify": "report", "when": "failures", "more_than": 0, "window_s": 3600}
    await acme.set_alert("thumbnails-fail", **fails)
    await acme.set_alert("sales-silent", type="report", notify="import.feed", when="silent", window_s=93_600)
    await acme.mute_alert("sales-silent", 3600)


async def make_webhooks(acme: Client) -> None:
    for name in ("GITHUB_HOOK", "SHOP_HOOK", "SHOP_HOOK_NEXT"):
        await acme.set_secret(name, "the-key-of-both")
    await acme.set_webhook("github", type="report", verify="github", secrets=["GITHUB_HOOK"], payload="request")
    signed = {"header": "X-Shopify-Hmac-Sha256", "digest": "base64", "delivery_header": "X-Shopify-Webhook-Id"}
    both = ["SHOP_HOOK", "SHOP_HOOK_NEXT"]
    await acme.set_webhook("shop", type="import.feed", verify="hmac", secrets=both, **signed)
    await acme.set_webhook(
        "hello", type="report", verify="none", payload="request", answer="result", wait_s=3, takes_get=True
    )


async def deliver(url: str) -> None:
    """What GitHub sends to one of these, and what strangers do."""
    body = b'{"ref": "main"}'
    good = hmac.new(b"the-key-of-both", body, hashlib.sha256).hexdigest()
    wide = "72d3162e-cc78-11e3-81ab-4c9367dc0958-" + "W" * 80
    async with aiohttp.ClientSession() as session:
        for named, key in (
            ("72d3162e-cc78-11e3-81ab-4c9367dc0958", good),
            (wide, good),
            (wide, good),
            (wide, "0" * 64),
        ):
            headers = {"X-GitHub-Delivery": named, "X-Hub-Signature-256": f"sha256={key}"}
            async with session.post(f"{url}/acme/in/github", data=body, headers=headers):
                pass
        async with session.get(f"{url}/acme/in/github", headers={"X-GitHub-Delivery": "<i>\u202eleft</i>"}):
            pass


async def retrying_job(acme: Client) -> str:
    """A job that has failed once and waits for its next attempt."""
    later = {"retry_base_ms": 3_600_000, "retry_max_ms": 3_600_000}
    await acme.put_handler("import.feed", "python", 'raise ConnectionError(f"feed {payload} is down")', options=later)
    added = await acme.add_jobs("import.feed", ["prices"])
    job_id = next(iter(added.ids or ()))

    async def has_failed() -> bool:
        return (await acme.get_job(job_id)).state == "deferred"

    await until(has_failed)
    return job_id
