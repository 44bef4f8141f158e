"""A form that posts a job of a type: its payload, and the options that people use by hand."""

from typing import Final

from msgspec import UNSET

from functory.errors import InvalidInput
from functory.operations import handlers
from functory.operations.job_settings import to_options, unsaid
from functory.operations.submit import Submission, submit_jobs
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Go, Page, Pages
from functory.wire.jobs import JobSettings, Priority

pages = Pages()

_FIELDS: Final = ("payload", "delay_s", "priority", "unique", "repeat")
PRIORITIES: Final = {"1000": "high", "500": "normal", "0": "low"}
NUMBERS: Final[dict[str, Priority]] = {"1000": 1000, "500": 500, "0": 0}


@pages.get("/ui/t/{tenant}/type/{type}/post", scope="submit")
async def show_form(call: PageCall) -> Page:
    values = {
        "type": call.type_name,
        "has_handler": await handlers.find_handler(call.service, call.tenant, call.type_name) is not None,
        "draft": {name: call.form.get(name, "") for name in _FIELDS},
        "priorities": PRIORITIES,
    }
    return Page("post_job.html", values)


@pages.post("/ui/t/{tenant}/type/{type}/post", scope="submit", form=show_form)
async def post_job(call: PageCall) -> Go:
    (job_id,) = await submit_jobs(call.service, call.who, call.type_name, [_submission(call)])
    return Go(f"{call.home}/job/{job_id}", "posted")


def _submission(call: PageCall) -> Submission:
    form = call.form
    delay, priority = form.get("delay_s", "").strip(), form.get("priority", "")
    try:
        delay_s = float(delay) if delay else 0.0
    except ValueError:
        raise InvalidInput("The delay must be a number of seconds.", detail={"field": "delay_s"}) from None
    if not 0 <= delay_s <= 366 * 86_400:
        raise InvalidInput("The delay must be between 0 seconds and a year.", detail={"field": "delay_s"})
    settings = JobSettings(
        delay_s=delay_s or None,
        priority=NUMBERS.get(priority, UNSET),
        repeat=form.get("repeat", "").strip() or UNSET,
    )
    payload = form.get("payload", "").replace("\r\n", "\n")  # browsers send their own line ends
    unique = form.get("unique", "").strip()
    return Submission(
        payload.encode("utf-8", "surrogatepass"), to_options(settings, call.now_ms), unique, keeps=unsaid(settings)
    )
