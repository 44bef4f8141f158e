"""Routes of secrets: set, list, delete. No answer holds a value."""

from functory.operations import secrets as operations
from functory.web.http.endpoint import Call
from functory.web.http.routes import Routes
from functory.wire.base import Done
from functory.wire.secrets import SecretBody, SecretList, SecretRow
from store.base import Secret

routes = Routes()


@routes.add("GET", "/{tenant}/secret", scope="read", summary="The names of the secrets")
async def list_secrets(call: Call) -> SecretList:
    return SecretList([_row(secret) for secret in await operations.list_secrets(call.service, call.tenant)])


@routes.add("PUT", "/{tenant}/secret/{secret}", scope="secrets", summary="Set or rotate a secret")
async def set_secret(call: Call, body: SecretBody) -> SecretRow:
    return _row(await operations.set_secret(call.service, call.principal, call.param("secret"), body.value))


@routes.add("DELETE", "/{tenant}/secret/{secret}", scope="secrets", summary="Delete a secret")
async def delete_secret(call: Call) -> Done:
    await operations.delete_secret(call.service, call.principal, call.param("secret"))
    return Done()


def _row(secret: Secret) -> SecretRow:
    return SecretRow(secret.name, secret.version, secret.created_ms, secret.author)
