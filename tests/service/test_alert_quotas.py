"""A rule that tells when a quota is nearly used up, on both stores."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from functory.alerts.terms import Terms
from functory.operations.tenants import update_tenant
from functory.tenant_limits import TenantLimits
from tests.support.alert_rules import ACME, add, look, set_rule, states, told
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.web import Site, open_site


@pytest.fixture(params=back_end_params())
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    async with BACK_ENDS[request.param](tmp_path) as url, open_site(tmp_path, store_url=url) as site:
        yield site


@pytest.mark.parametrize(
    ("limits", "used"),
    [
        (TenantLimits(max_jobs=10), 0.6),
        (TenantLimits(max_jobs=10, max_types=1), 1.0),
        (TenantLimits(max_types=5), 0.2),
        (TenantLimits(max_jobs=0), 1.0),
        (TenantLimits(max_handlers=0), None),
        (TenantLimits(max_bytes=100_000_000), None),
        (TenantLimits(), None),
    ],
)
async def test_a_quota_of_which_much_is_used_is_told(site: Site, limits: TenantLimits, used: float | None) -> None:
    share = 0.5 if used is None else used - 0.01
    await set_rule(site, Terms(type="*", notify="tell", when="quota", share_above=share))
    await add(site, 6)
    await update_tenant(site.service, "op", ACME, limits=limits)
    await look(site)
    await update_tenant(site.service, "op", ACME, limits=TenantLimits())  # it may have kept back what is told
    await look(site)
    found = await told(site)
    assert [(it["state"], it["value"]) for it in found] == ([] if used is None else [("firing", used)])
    if found:
        assert found[0]["condition"] == {"when": "quota", "share_above": share}
        await look(site, 70)
        assert await states(site) == [("rule", "firing"), ("rule", "resolved")]


async def test_a_quota_is_told_from_above_the_share(site: Site) -> None:
    await update_tenant(site.service, "op", ACME, limits=TenantLimits(max_jobs=10))
    await set_rule(site, Terms(type="*", notify="tell", when="quota", share_above=0.5))
    await add(site, 5)
    await look(site)
    assert await told(site) == []
    await add(site)
    await look(site)
    (firing,) = await told(site)
    assert firing["text"] == "FIRING rule: *: more than 0.5 of a quota is used"
