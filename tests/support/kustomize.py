"""The part of kustomize that `deploy/kubernetes` uses: resources, labels, a namespace, and JSON patches by target.

Anything else in a kustomization is refused, so that what is tested cannot drift from what kustomize makes of it. Where
`kustomize` is on the PATH the tests hold the two against each other.
"""

import copy
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.deploy_files import load_yaml

Resource = dict[str, Any]

_KNOWN: Final = {"apiVersion", "kind", "namespace", "resources", "labels", "patches"}
_CLUSTER_WIDE: Final = {"Namespace"}


def build(directory: Path) -> list[Resource]:
    """What `kustomize build DIRECTORY` prints, in the order of the files."""
    kustomization = load_yaml(directory / "kustomization.yaml")
    assert kustomization.keys() <= _KNOWN, (
        f"{directory}: teach tests/support/kustomize.py {kustomization.keys() - _KNOWN}"
    )
    resources: list[Resource] = []
    for name in kustomization["resources"]:
        path = directory / name
        resources += build(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    resources = copy.deepcopy(resources)
    for resource in resources:
        for label in kustomization.get("labels", []):
            resource["metadata"].setdefault("labels", {}).update(label["pairs"])
        if "namespace" in kustomization and resource["kind"] not in _CLUSTER_WIDE:
            resource["metadata"]["namespace"] = kustomization["namespace"]
    for patch in kustomization.get("patches", []):
        targets = [it for it in resources if _is_target(it, patch["target"])]
        assert targets, f"{directory}: no resource is {patch['target']}"
        for resource in targets:
            for step in yaml.safe_load(patch["patch"]):
                _apply(resource, **step)
    return resources


def _is_target(resource: Resource, target: dict[str, str]) -> bool:
    kind: str = resource["kind"]
    name: str = resource["metadata"]["name"]
    return kind == target["kind"] and name == target.get("name", name)


def _apply(resource: Resource, op: str, path: str, value: Any) -> None:
    """One step of a JSON patch (RFC 6902): add and replace."""
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.strip("/").split("/")]
    place: Any = resource
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    if isinstance(place, list):
        assert (op, last) == ("add", "-"), path
        place.append(copy.deepcopy(value))
        return
    assert op == "add" or last in place, f"{path}: there is nothing to replace"
    place[last] = copy.deepcopy(value)
