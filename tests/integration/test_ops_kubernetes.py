"""The Kubernetes manifests: rendered, held against the schemas, searched for what is unsafe."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
import pytest
import yaml

from tests.support.nats_server import nats_server_binary
from threadbus.bus import access, cluster

_MANIFESTS = Path(__file__).parents[2] / "ops" / "kubernetes"
_AGENTS = ("planner", "critique", "answer-finding", "web", "document", "coding")
_HOSTS = [f"nats-{number}.nats.threadbus.svc.cluster.local" for number in range(3)]
_LONG_LIVED = ("Deployment", "StatefulSet")

Manifest = dict[str, Any]

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")


async def _keys(team: Path) -> None:
    folder = cluster.ClusterFolder(team)
    await folder.init(cluster.make_plan(_HOSTS))
    for name in _AGENTS:
        await folder.auth.add(name, access.Role.AGENT)
    for name in ("mcp", "a2a"):
        await folder.auth.add(name, access.Role.GATEWAY, acts_for=["my-editor"])
    (team / "routes.password").write_text("secret", encoding="utf-8")
    for name in ("tokens.json", "push.key", "state.keys"):
        (team / name).write_text("{}", encoding="utf-8")


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The overlay with keys in place, as its README says."""
    copied = tmp_path_factory.mktemp("kubernetes") / "kubernetes"
    shutil.copytree(_MANIFESTS, copied)
    made = copied / "overlays" / "anemoi"
    asyncio.run(_keys(made / "team"))
    return made


@pytest.fixture(scope="module")
def rendered(overlay: Path) -> list[Manifest]:
    """What `kubectl apply --kustomize` would send."""
    ran = subprocess.run(
        ["kubectl", "kustomize", str(overlay)], capture_output=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return list(yaml.safe_load_all(ran.stdout))


@pytest.mark.parametrize(
    "path",
    sorted(p for p in _MANIFESTS.rglob("*.yaml") if p.name != "kustomization.yaml"),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_each_manifest_is_one_of_kubernetes(path: Path) -> None:
    """No unknown field, nothing missing, in the newest version and in one a year older."""
    for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        for version in (kubernetes_validate.latest_version(), "1.33"):
            kubernetes_validate.validate(manifest, version, strict=True)


@needs_kubectl
def test_the_overlay_renders_to_manifests_of_kubernetes(rendered: list[Manifest]) -> None:
    """All of it is valid; every secret and configuration that a pod wants is there."""
    names: set[tuple[str, str]] = set()
    for manifest in rendered:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
        names.add((manifest["kind"], manifest["metadata"]["name"]))
    wanted = {found for manifest in rendered for found in _references(manifest)}
    # With the key of a model, which its owner makes.
    assert wanted - names == {("Secret", "model")}


@needs_kubectl
def test_every_pod_is_bounded_and_without_root(rendered: list[Manifest]) -> None:
    """No root, nothing to write to, no capability, limits and requests, no token of the cluster."""
    pods = [spec for manifest in rendered if (spec := _pod(manifest)) is not None]
    assert len(pods) == len(_AGENTS) + 4
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            for bound in ("requests", "limits"):
                assert set(container["resources"][bound]) == {"cpu", "memory"}


@needs_kubectl
def test_everything_that_lives_is_watched_and_kept_running(rendered: list[Manifest]) -> None:
    """Three probes, more than one pod, and a budget that keeps one (of NATS two) running."""
    budgets = {
        manifest["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]: manifest["spec"]
        for manifest in rendered
        if manifest["kind"] == "PodDisruptionBudget"
    }
    for manifest in rendered:
        if manifest["kind"] not in _LONG_LIVED:
            continue
        spec = manifest["spec"]
        labels = spec["template"]["metadata"]["labels"]
        component = spec["selector"]["matchLabels"]["app.kubernetes.io/component"]
        assert labels["app.kubernetes.io/component"] == component
        assert budgets[component]["minAvailable"] == spec["replicas"] - 1 > 0
        (container,) = spec["template"]["spec"]["containers"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)


@needs_kubectl
def test_each_pod_speaks_as_whom_its_key_is_for(rendered: list[Manifest]) -> None:
    """The server sends answers to no other name, so that such a pod would wait for ever."""
    found: set[str] = set()
    for manifest in rendered:
        pod = _pod(manifest)
        if pod is None:
            continue
        for container in pod["containers"]:
            variables: dict[str, str] = {
                one["name"]: one.get("value", "") for one in container.get("env", [])
            }
            if "BUS_NKEY" not in variables:
                continue
            (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "secret")
            name = variables["BUS_AS"]
            assert any(secret.startswith(f"key-{name}") for secret in _secrets(volume)), name
            found.add(name)
    assert found == {*_AGENTS, "mcp", "a2a", "operator"}


@needs_kubectl
def test_no_container_reads_a_secret_that_a_group_could(rendered: list[Manifest]) -> None:
    """Secrets are mounted for a group: keys, tokens and what else is secret are copied first."""
    for manifest in rendered:
        pod = _pod(manifest)
        if pod is None or manifest["kind"] == "StatefulSet":
            continue
        private = {v["name"] for v in pod["volumes"] if _secrets(v) and v["name"] != "ca"}
        for container in pod["containers"]:
            assert private & {mount["name"] for mount in container["volumeMounts"]} == set()
            copied: list[str] = pod["initContainers"][0]["command"]
            names = {word.rpartition("/")[2] for word in copied if word.startswith("/run/secret/")}
            said = " ".join([*container["command"], *(str(e) for e in container["env"])])
            assert set(re.findall(r"/run/key/([a-z.]+)", said)) == names


@needs_kubectl
def test_only_what_is_named_may_be_reached(rendered: list[Manifest]) -> None:
    """A policy shuts everything, and each pod that uses the bus is let to it."""
    policies = {m["metadata"]["name"]: m["spec"] for m in rendered if m["kind"] == "NetworkPolicy"}
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for manifest in rendered:
        pod = _pod(manifest)
        if pod is None or manifest["kind"] == "StatefulSet":
            continue
        assert manifest["spec"]["template"]["metadata"]["labels"]["threadbus/uses-bus"] == "true"


def test_nats_server_takes_its_configuration(overlay: Path, tmp_path: Path) -> None:
    """With the secret in place as the overlay has it, `nats-server -t` calls it valid."""
    team = overlay / "team"
    secret = tmp_path / "secret"
    secret.mkdir()
    shutil.copy(team / "n1" / "accounts.conf", secret / "accounts.conf")
    shutil.copy(team / "tls" / "ca.pem", secret / "ca.pem")
    text = (_MANIFESTS / "base" / "nats.conf").read_text(encoding="utf-8")
    config = tmp_path / "nats.conf"
    config.write_text(text.replace("/etc/nats", str(tmp_path)).replace("/data", str(tmp_path)))
    ran = subprocess.run(
        [nats_server_binary(), "-t", "--config", config],
        env={
            "POD_NAME": "nats-0",
            "ROUTE_PASSWORD": "secret",
            "CERT_FILE": str(team / "n1" / "tls" / "node.pem"),
            "KEY_FILE": str(team / "n1" / "tls" / "node.key"),
        },
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()


def _pod(manifest: Manifest) -> Manifest | None:
    template = manifest["spec"].get("template") if "spec" in manifest else None
    return None if template is None else template["spec"]


def _secrets(volume: Manifest) -> list[str]:
    if "secret" in volume:
        return [volume["secret"]["secretName"]]
    sources: list[Manifest] = volume.get("projected", {}).get("sources", [])
    return [source["secret"]["name"] for source in sources]


def _references(manifest: Manifest) -> set[tuple[str, str]]:
    """Return the secrets and configurations that a pod wants."""
    pod = _pod(manifest)
    if pod is None:
        return set()
    found: set[tuple[str, str]] = set()
    for volume in pod["volumes"]:
        found |= {("Secret", name) for name in _secrets(volume)}
        if "configMap" in volume:
            found.add(("ConfigMap", volume["configMap"]["name"]))
    for container in pod["containers"]:
        for source in container.get("envFrom", []):
            kind = "Secret" if "secretRef" in source else "ConfigMap"
            found.add((kind, next(iter(source.values()))["name"]))
        for variable in container.get("env", []):
            secret = variable.get("valueFrom", {}).get("secretKeyRef")
            if secret is not None:
                found.add(("Secret", secret["name"]))
    return found
