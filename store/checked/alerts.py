"""The verbs on alert rules, checked."""

from store.checked.core import CheckedCore
from store.checks import check_author, check_range, check_text, check_time
from store.errors import InvalidValue
from store.names import check_tenant
from store.protocol.alerts import AlertShelf
from store.values.alerts import AlertRecord
from vocabulary.names import TYPE_RULE, is_type


class CheckedAlerts(CheckedCore, AlertShelf):
    async def put_alert(self, alert: AlertRecord) -> bool:
        check_tenant(alert.tenant)
        _check_name(alert.name)
        check_range("version", alert.version, 1, 1 << 53)
        check_time("created_ms", alert.created_ms)
        check_author(alert.author)
        check_text("settings", alert.settings)
        check_text("state", alert.state)
        return await self._back.put_alert(alert)

    async def list_alerts(self, tenant: str) -> list[AlertRecord]:
        check_tenant(tenant)
        return await self._back.list_alerts(tenant)

    async def list_alert_tenants(self) -> list[str]:
        return await self._back.list_alert_tenants()

    async def delete_alert(self, tenant: str, name: str) -> bool:
        check_tenant(tenant)
        _check_name(name)
        return await self._back.delete_alert(tenant, name)


def _check_name(name: str) -> None:
    if not is_type(name):
        raise InvalidValue(f"{name!r:.80} is not the name of an alert: {TYPE_RULE}")
