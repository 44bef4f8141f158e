"""The manifests: valid by the schemas of Kubernetes, and true to what the daemon needs."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it ships no types
import pytest
import yaml

from functory.config import ENVIRONMENT_PREFIX, load_config, setting_fields
from functory.setting_values import wake_address
from functory.web.app import STATUS_ROUTES
from functory.web.http.settings import WebSettings
from tests.support.deploy_files import DEPLOY, load_yaml
from tests.support.kustomize import Resource, build

KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = ["sqlite-single", "mongodb"]
SCHEMA_VERSION = "1.33"
"""The oldest version in which pods get user namespaces without a feature gate."""


@pytest.fixture(params=OVERLAYS)
def resources(request: pytest.FixtureRequest) -> list[Resource]:
    return build(KUBERNETES / "overlays" / str(request.param))


def of_kind(resources: list[Resource], kind: str) -> list[Resource]:
    return [it for it in resources if it["kind"] == kind]


def containers(resources: list[Resource]) -> list[dict[str, Any]]:
    pods = [it["spec"]["template"]["spec"] for it in of_kind(resources, "StatefulSet")]
    return [container for pod in pods for container in pod["containers"]]


def test_every_resource_is_valid_by_its_schema(resources: list[Resource]) -> None:
    for resource in resources:
        kubernetes_validate.validate(resource, SCHEMA_VERSION, strict=True)
    names = [(it["kind"], it["metadata"]["name"]) for it in resources]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_makes_the_same_of_it(overlay: str) -> None:
    kustomize = shutil.which("kustomize")
    if kustomize is None:
        pytest.skip("kustomize is not here; what the tests render is what they can hold against the schemas")
    directory = KUBERNETES / "overlays" / overlay
    done = subprocess.run([kustomize, "build", str(directory)], capture_output=True, text=True, check=True)
    theirs = {_name(it): it for it in yaml.safe_load_all(done.stdout)}
    assert theirs == {_name(it): it for it in build(directory)}


def _name(resource: Resource) -> tuple[str, str]:
    return resource["kind"], resource["metadata"]["name"]


def test_selectors_find_the_pods_that_they_mean(resources: list[Resource]) -> None:
    pods = [it["spec"]["template"]["metadata"]["labels"] for it in of_kind(resources, "StatefulSet")]
    selectors = [it["spec"]["selector"] for it in of_kind(resources, "Service")]
    selectors += [it["spec"]["selector"]["matchLabels"] for it in of_kind(resources, "PodDisruptionBudget")]
    selectors += [it["spec"]["podSelector"]["matchLabels"] for it in of_kind(resources, "NetworkPolicy")]
    for selector in selectors:
        assert any(selector.items() <= labels.items() for labels in pods), selector
    for workload in of_kind(resources, "StatefulSet"):
        template = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= template.items()
        assert workload["spec"]["serviceName"] in {it["metadata"]["name"] for it in of_kind(resources, "Service")}
    for ingress in of_kind(resources, "Ingress"):
        backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
        (service,) = [it for it in of_kind(resources, "Service") if it["metadata"]["name"] == backend["name"]]
        assert backend["port"]["name"] in {port["name"] for port in service["spec"]["ports"]}


def test_daemons_can_tell_each_other_what_happened() -> None:
    """The port that they receive at is open between their pods, both ways, and to nobody else."""
    resources = build(KUBERNETES / "overlays" / "mongodb")
    (settings,) = of_kind(resources, "ConfigMap")
    (policy,) = of_kind(resources, "NetworkPolicy")
    address = wake_address(settings["data"]["FUNCTORY_WAKE"])
    assert address is not None
    assert address.host == "", "the pod's own"
    pods = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "functory"}}}
    open_ = {"ports": [{"protocol": "UDP", "port": address.port}]}
    assert [rule for rule in policy["spec"]["ingress"] if rule["ports"] == open_["ports"]] == [
        {"from": [pods], **open_}
    ]
    assert [rule for rule in policy["spec"]["egress"] if rule["ports"] == open_["ports"]] == [{"to": [pods], **open_}]


def test_the_pods_keep_isolation_and_nothing_more(resources: list[Resource]) -> None:
    for workload in of_kind(resources, "StatefulSet"):
        pod = workload["spec"]["template"]["spec"]
        assert pod["hostUsers"] is False, "only then may /proc be uncovered, and namespaces be made"
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["procMount"] == "Unmasked"
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert mounted >= {"/var/lib/functory", "/tmp", "/var/tmp"}  # noqa: S108 (the pod's own)
            assert "memory" in container["resources"]["limits"]


def test_probes_ask_what_the_daemon_answers(resources: list[Resource]) -> None:
    paths = {route.path for route in STATUS_ROUTES}
    for container in containers(resources):
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            ask = container[probe]["httpGet"]
            assert ask["path"] in paths
            assert ask["port"] in ports
        # While the store is away a daemon is not ready, and no restart would bring the store back.
        assert container["startupProbe"]["httpGet"]["path"] == "/healthz"
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_stop_has_more_time_than_a_lease_needs(resources: list[Resource]) -> None:
    (config,) = of_kind(resources, "ConfigMap")
    settings = load_config({}, config["data"]).settings
    assert settings.min_isolation == "L2"
    for workload in of_kind(resources, "StatefulSet"):
        pod = workload["spec"]["template"]["spec"]
        needed_s = 5 + 2 * settings.grace_s + settings.lease_s + WebSettings().shutdown_s
        assert pod["terminationGracePeriodSeconds"] > needed_s
        assert workload["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Retain"


def test_settings_are_settings(resources: list[Resource]) -> None:
    known = {ENVIRONMENT_PREFIX + name.upper() for name in setting_fields()}
    (config,) = of_kind(resources, "ConfigMap")
    assert config["data"].keys() <= known
    for container in containers(resources):
        assert {it["name"].removesuffix("_FILE") for it in container.get("env", [])} <= known
        command, *flags = container["args"]
        assert command == "serve"
        assert {flag.removeprefix("--") for flag in flags[::2]} <= {name.replace("_", "-") for name in setting_fields()}


def test_a_cluster_has_both_roles_and_scales_what_runs() -> None:
    resources = build(KUBERNETES / "overlays" / "mongodb")
    roles = {it["metadata"]["name"]: it for it in of_kind(resources, "StatefulSet")}
    assert roles.keys() == {"functory-api", "functory-run"}
    (scaler,) = of_kind(resources, "HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] == "functory-run"
    assert "replicas" not in roles["functory-run"]["spec"], "each apply would undo what the autoscaler did"
    asked = {metric["external"]["metric"]["name"] for metric in scaler["spec"]["metrics"]}
    rules = load_yaml(KUBERNETES / "prometheus-adapter-rules.yaml")["rules"]["external"]
    assert asked == {rule["name"]["as"] for rule in rules}
    assert {it["metadata"]["name"] for it in of_kind(resources, "PodDisruptionBudget")} == roles.keys()
    for workload in roles.values():
        mounts = {mount["name"] for mount in workload["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]}
        assert mounts == {"data", "scratch", "store"}


def test_the_two_workloads_differ_only_in_their_role() -> None:
    base = (KUBERNETES / "base" / "api.yaml").read_text().partition("\n")[2]
    run = (KUBERNETES / "overlays" / "mongodb" / "run.yaml").read_text().partition("\n")[2]
    run, of_scaling = re.subn(r"^  # How many is the autoscaler's .*$", "  replicas: 2", run, flags=re.MULTILINE)
    assert of_scaling == 1
    assert base.replace("functory-api", "functory-run").replace("component: api", "component: run").replace(
        "--role, api", "--role, run"
    ) == (run)


def test_no_secret_is_in_the_repository() -> None:
    for path in (*KUBERNETES.rglob("*.yaml"), *Path(DEPLOY / "compose").glob("*.yaml")):
        kinds = [it.get("kind") for it in yaml.safe_load_all(path.read_text())]
        assert "Secret" not in kinds, path
