"""Verbs on alert rules: what a tenant wants to be told of, and how each rule stands."""

import abc

from store.values.alerts import AlertRecord


class AlertShelf(abc.ABC):
    """Rules by tenant and name. Of several writers of one version one wins, on all daemons: whatever follows from a
    change follows once."""

    @abc.abstractmethod
    async def put_alert(self, alert: AlertRecord) -> bool:
        """Write a version over the one before it, if that is still there and of the same rule (created_ms); version 1
        if there is none of the name. False if it is not so: somebody was quicker, and nothing is changed. Atomic.
        Raises InvalidValue."""

    @abc.abstractmethod
    async def list_alerts(self, tenant: str) -> list[AlertRecord]:
        """In order of name."""

    @abc.abstractmethod
    async def list_alert_tenants(self) -> list[str]:
        """The tenants that have rules, in order."""

    @abc.abstractmethod
    async def delete_alert(self, tenant: str, name: str) -> bool:
        """False if there was none. Atomic."""
