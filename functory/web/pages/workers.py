"""Workers of a tenant in the last hour, and a button to have one take no more jobs."""

from functory.operations import workers as operations
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Go, Page, Pages

pages = Pages()


@pages.get("/ui/t/{tenant}/workers", scope="read")
async def show_workers(call: PageCall) -> Page:
    workers = await operations.list_workers(call.service, call.tenant)
    return Page("workers.html", {"workers": workers, "now_ms": call.now_ms})


@pages.post("/ui/t/{tenant}/workers/drain", scope="manage")
async def drain(call: PageCall) -> Go:
    await operations.drain_worker(call.service, call.who, call.form.get("name", ""), drained=True)
    return Go(f"{call.home}/workers", "drained")


@pages.post("/ui/t/{tenant}/workers/undrain", scope="manage")
async def undrain(call: PageCall) -> Go:
    await operations.drain_worker(call.service, call.who, call.form.get("name", ""), drained=False)
    return Go(f"{call.home}/workers", "undrained")
