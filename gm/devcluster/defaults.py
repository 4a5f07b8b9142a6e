"""Defaults of the built-in kinds, as kube-apiserver and its standard admission fill them in.

Every function changes the object in place and leaves alone what is already there. Zero values that
Go always writes are not set here but by ``schema.normalise``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from gm.api.meta import Json

__all__ = [
    "core_event",
    "custom_resource_definition",
    "deployment",
    "endpoint_slice",
    "endpoints",
    "horizontal_pod_autoscaler",
    "namespace",
    "node",
    "persistent_volume_claim",
    "pod",
    "quality_of_service",
    "replica_set",
    "secret",
    "service",
]

_FILE_MODE = 0o644
_PULLED_ALWAYS = ("", "latest")
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS = 300


def pod(obj: Json) -> None:
    """A pod: its spec, and what admission adds to pods (not to templates)."""
    spec = obj["spec"]
    pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.get("tolerations") or []
    for key in _TOLERATED:
        if not any(_tolerates(t, key) for t in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATION_SECONDS,
                }
            )
    spec["tolerations"] = tolerations
    status = obj.setdefault("status", {})
    status.setdefault("qosClass", quality_of_service(spec))
    _write_nulls(status.get("conditions"), "lastProbeTime", "lastTransitionTime")


def _write_nulls(objects: list[Json] | None, *fields: str) -> None:
    """Times that Go writes even when there is none."""
    for obj in objects or []:
        for field in fields:
            obj.setdefault(field, None)


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in (
        "NoExecute",
        None,
        "",
    )


def pod_spec(spec: Json) -> None:
    """The spec of a pod or of a pod template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # the second is the first's old name; both are kept
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in _containers(spec):
        _container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or []:
        _volume(volume)


def _containers(spec: Json) -> Iterator[Json]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or []


def _container(container: Json, *, host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if image := container.get("image"):
        always = _tag(image) in _PULLED_ALWAYS
        container.setdefault("imagePullPolicy", "Always" if always else "IfNotPresent")
    if host_network:
        for port in container.get("ports") or []:
            if "containerPort" in port:
                port.setdefault("hostPort", port["containerPort"])
    resources = container.get("resources") or {}
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for variable in container.get("env") or []:
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe) is not None:
            _probe(container[probe])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict) and hook.get("httpGet") is not None:
            _http_get(hook["httpGet"])


def _tag(image: str) -> str:
    """The tag of an image reference; ``@`` for one that is fixed by its digest."""
    if "@" in image:
        return "@"
    return image.rsplit("/", 1)[-1].partition(":")[2]


def _probe(probe: Json) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if probe.get("httpGet") is not None:
        _http_get(probe["httpGet"])
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _http_get(action: Json) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _volume(volume: Json) -> None:
    if not any(volume.get(key) is not None for key in volume if key != "name"):
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", _FILE_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    items = list((volume.get("downwardAPI") or {}).get("items") or [])
    for projection in (volume.get("projected") or {}).get("sources") or []:
        items += (projection.get("downwardAPI") or {}).get("items") or []
        if projection.get("serviceAccountToken") is not None:
            projection["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    for item in items:
        if item.get("fieldRef") is not None:
            item["fieldRef"].setdefault("apiVersion", "v1")


def quality_of_service(spec: Json) -> str:
    """BestEffort, Burstable or Guaranteed."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    resources = [c.get("resources") or {} for c in containers]
    if not any(r.get("requests") or r.get("limits") for r in resources):
        return "BestEffort"
    for wanted in resources:
        limits, requests = wanted.get("limits") or {}, wanted.get("requests") or {}
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                return "Burstable"
    return "Guaranteed"


def service(obj: Json) -> None:
    """A service; its addresses and node ports are given out by the core."""
    spec = obj["spec"]
    for ingress in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []:
        if ingress.get("ip"):
            ingress.setdefault("ipMode", "VIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port")
    if spec["type"] == "ExternalName":
        return
    spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec["type"] in ("NodePort", "LoadBalancer") or spec.get("externalIPs"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def namespace(obj: Json) -> None:
    """A namespace: the label with its name."""
    meta = obj["metadata"]
    labels = meta.setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = meta.get("name", "")


def node(obj: Json) -> None:
    """A node: what it has can be allocated."""
    status = obj.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    _write_nulls(status.get("conditions"), "lastHeartbeatTime", "lastTransitionTime")


def secret(obj: Json) -> None:
    """A secret: its type, and ``stringData`` moved into ``data``."""
    obj.setdefault("type", "Opaque")
    if plain := obj.pop("stringData", None):
        data = obj.setdefault("data", {})
        for key, value in plain.items():
            data[key] = base64.b64encode((value or "").encode()).decode()


def core_event(obj: Json) -> None:
    """An event: its times are written even when there are none."""
    _write_nulls([obj], "eventTime", "firstTimestamp", "lastTimestamp")


def deployment(obj: Json) -> None:
    """A deployment and its template."""
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    pod_spec(spec["template"].setdefault("spec", {}))


def replica_set(obj: Json) -> None:
    """A replica set and its template."""
    obj["spec"].setdefault("replicas", 1)
    pod_spec(obj["spec"].setdefault("template", {}).setdefault("spec", {}))


def persistent_volume_claim(obj: Json) -> None:
    """A claim."""
    obj["spec"].setdefault("volumeMode", "Filesystem")


def horizontal_pod_autoscaler(obj: Json) -> None:
    """An autoscaler: at least one replica, 80 % of the requested CPU."""
    spec = obj["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def endpoints(obj: Json) -> None:
    """Endpoints: TCP."""
    for subset in obj.get("subsets") or []:
        for port in subset.get("ports") or []:
            port.setdefault("protocol", "TCP")


def endpoint_slice(obj: Json) -> None:
    """An endpoint slice: unnamed TCP ports."""
    for port in obj.get("ports") or []:
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def custom_resource_definition(obj: Json) -> None:
    """A CRD: names that follow from the kind, no conversion."""
    spec = obj["spec"]
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    conversion = spec.setdefault("conversion", {})
    conversion.setdefault("strategy", "None")
