"""The calls about alert rules."""

from functory.client.transport import Transport
from functory.wire import alerts


class AlertCalls(Transport):
    async def list_alerts(self) -> alerts.AlertList:
        return await self._call("GET", self._path("alert"), alerts.AlertList)

    async def get_alert(self, name: str) -> alerts.Alert:
        return await self._call("GET", self._path("alert", name), alerts.Alert)

    async def set_alert(self, name: str, **settings: object) -> bool:
        """Make a rule, or change one. The settings are those of `AlertBody`. True if it is new."""
        return (await self._call("PUT", self._path("alert", name), alerts.AlertSet, body=settings)).created

    async def delete_alert(self, name: str) -> None:
        await self._fetch("DELETE", self._path("alert", name), {}, None, None)

    async def mute_alert(self, name: str, for_s: int) -> alerts.AlertMuted:
        """Tell nothing of it for so long; 0 ends that."""
        return await self._call("POST", self._path("alert", name, "mute"), alerts.AlertMuted, body={"for_s": for_s})

    async def test_alert(self, name: str) -> str:
        """Send one notification now. Returns the id of its job."""
        return (await self._call("POST", self._path("alert", name, "test"), alerts.AlertTested)).id
