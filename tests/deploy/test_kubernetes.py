"""The Kubernetes manifest: valid for its API, and as a native sidecar has to be."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from idlestate.config.loading import parse

MANIFEST = Path(__file__).resolve().parents[2] / "deploy/kubernetes/sidecar.yaml"
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFEST.read_text()))
KINDS = {each["kind"]: each for each in OBJECTS}
NATIVE_SIDECARS_SINCE = "1.33"


@pytest.mark.parametrize("which", range(len(OBJECTS)))
def test_an_object_is_valid(which: int) -> None:
    kubernetes_validate.validate(OBJECTS[which], NATIVE_SIDECARS_SINCE, strict=True)


def test_the_linter_sees_what_is_wrong() -> None:
    wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"images": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, NATIVE_SIDECARS_SINCE, strict=True)


def test_the_sidecar_is_a_native_one_without_privileges() -> None:
    spec = KINDS["StatefulSet"]["spec"]["template"]["spec"]
    (sidecar,) = spec["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert "startupProbe" in sidecar
    assert spec["securityContext"]["runAsNonRoot"] is True
    for container in (sidecar, *spec["containers"]):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
    assert spec["terminationGracePeriodSeconds"] > 60
    mounts = {each["name"] for container in (sidecar,) for each in container["volumeMounts"]}
    assert mounts <= {each["name"] for each in spec["volumes"]}


def test_the_sidecar_sees_the_checkpoint_on_a_disk_that_outlives_the_pod() -> None:
    spec = KINDS["StatefulSet"]["spec"]["template"]["spec"]
    lasting = {each["name"] for each in spec["volumes"] if "persistentVolumeClaim" in each}
    sidecar, driver = (
        {(each["name"], each["mountPath"]) for each in container["volumeMounts"]}
        for container in (*spec["initContainers"], *spec["containers"])
    )
    assert any(name in lasting for name, _ in sidecar & driver)


def test_the_service_that_names_its_pods_is_there() -> None:
    named = KINDS["StatefulSet"]["spec"]["serviceName"]
    assert KINDS["Service"]["metadata"]["name"] == named
    assert KINDS["Service"]["spec"]["clusterIP"] == "None"


def test_its_configuration_is_good() -> None:
    text = KINDS["ConfigMap"]["data"]["sidecar.yaml"]
    config = parse(text.encode())
    assert config.sidecar is not None
    assert config.warnings == ()
