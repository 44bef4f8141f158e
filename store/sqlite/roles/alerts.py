"""The verbs on alert rules on SQLite."""

from store.protocol.alerts import AlertShelf
from store.sqlite.file.core import SqliteCore
from store.sqlite.records import alerts
from store.values.alerts import AlertRecord


class SqliteAlerts(SqliteCore, AlertShelf):
    async def put_alert(self, alert: AlertRecord) -> bool:
        return await self._write(lambda tx: alerts.put_alert(tx, alert))

    async def list_alerts(self, tenant: str) -> list[AlertRecord]:
        return await self._read(lambda conn: alerts.list_alerts(conn, tenant))

    async def list_alert_tenants(self) -> list[str]:
        return await self._read(alerts.list_alert_tenants)

    async def delete_alert(self, tenant: str, name: str) -> bool:
        return await self._write(lambda tx: alerts.delete_alert(tx, tenant, name))
