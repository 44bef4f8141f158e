"""The secrets of a tenant: names, versions, and forms to set and delete. Values go in and are never shown."""

from functory.operations import secrets
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Go, Page, Pages

pages = Pages()


@pages.get("/ui/t/{tenant}/secrets", scope="read")
async def list_secrets(call: PageCall) -> Page:
    """Of a form that was refused, the name stays. Its value does not: no page has one."""
    values = {
        "secrets": await secrets.list_secrets(call.service, call.tenant),
        "name": call.form.get("name", "")[:128],
    }
    return Page("secrets.html", values)


@pages.post("/ui/t/{tenant}/secrets", scope="secrets", form=list_secrets)
async def set_secret(call: PageCall) -> Go:
    value = call.form.get("value", "").replace("\r\n", "\n").removesuffix("\n")
    await secrets.set_secret(call.service, call.who, call.form.get("name", "").strip(), value)
    return Go(f"{call.home}/secrets", "secret_set")


@pages.post("/ui/t/{tenant}/secrets/{secret}/delete", scope="secrets")
async def delete_secret(call: PageCall) -> Go:
    await secrets.delete_secret(call.service, call.who, call.params["secret"])
    return Go(f"{call.home}/secrets", "secret_deleted")
