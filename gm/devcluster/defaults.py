"""Defaults of the built-in kinds, as kube-apiserver and its standard admission fill them in.

Every function changes the object in place and leaves alone what is already there. Zero values that
Go always writes are not set here but by ``schema.normalise``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from gm.api.meta import Json

__all__ = [
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
    _pod_spec(spec)
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
    _pod_addresses(status)


def _pod_addresses(status: Json) -> None:
    """The two fields with a pod's addresses; the older one is believed."""
    address, addresses = status.get("podIP"), status.get("podIPs") or []
    if address and address != next((each.get("ip") for each in addresses), None):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address:
        status["podIP"] = addresses[0].get("ip", "")


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in (
        "NoExecute",
        None,
        "",
    )


def _pod_spec(spec: Json) -> None:
    """The spec of a pod or of a pod template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # the second is the first's old name; both are kept
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in _containers(spec):
        _container(container, host_network=bool(spec.get("hostNetwork")))
    for container in spec.get("containers") or []:
        container.pop("restartPolicy", None)  # for those that run before, and then only "Always"
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") != "Always":
            container.pop("restartPolicy", None)
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
        _reference(variable.get("valueFrom") or {})
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe) is not None:
            _probe(container[probe])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict) and hook.get("httpGet") is not None:
            _http_get(hook["httpGet"])


def _reference(source: Json) -> None:
    """A reference to a field of the pod, or to a resource of a container."""
    if source.get("fieldRef") is not None:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if source.get("resourceFieldRef") is not None:
        source["resourceFieldRef"].setdefault("divisor", "0")


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
        _reference(item)
    if volume.get("projected") is not None:
        volume["projected"].setdefault("sources", None)


def quality_of_service(spec: Json) -> str:
    """BestEffort, Burstable or Guaranteed."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    resources = [c.get("resources") or {} for c in containers]
    counted = {"cpu", "memory"}
    wants = [(_some(r.get("limits")), _some(r.get("requests"))) for r in resources]
    if not any(counted & (limits.keys() | requests.keys()) for limits, requests in wants):
        return "BestEffort"
    for limits, requests in wants:
        for name in counted:
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                return "Burstable"
    return "Guaranteed"


def _some(amounts: Json | None) -> Json:
    """Quantities (in their form) without those that ask for nothing."""
    return {name: amount for name, amount in (amounts or {}).items() if amount != "0"}


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
    else:
        spec.pop("sessionAffinityConfig", None)
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
    """A namespace: the label with its name, and its phase."""
    meta = obj["metadata"]
    labels = meta.setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = meta.get("name", "")
    status = obj.setdefault("status", {})
    status["phase"] = status.get("phase") or "Active"


def node(obj: Json) -> None:
    """A node: what it has can be allocated."""
    spec, status = obj.setdefault("spec", {}), obj.get("status") or {}
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def secret(obj: Json) -> None:
    """A secret: its type, and ``stringData`` moved into ``data``."""
    obj.setdefault("type", "Opaque")
    if plain := obj.pop("stringData", None):
        data = obj.setdefault("data", {})
        for key, value in plain.items():
            data[key] = base64.b64encode((value or "").encode()).decode()


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
    _pod_spec(spec["template"].setdefault("spec", {}))


def replica_set(obj: Json) -> None:
    """A replica set and its template."""
    obj["spec"].setdefault("replicas", 1)
    _pod_spec(obj["spec"].setdefault("template", {}).setdefault("spec", {}))


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
