"""The built-in kinds: what they are called, how they are served, which rules they follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gm.api.meta import Json, ResourceType
from gm.devcluster import (
    columns,
    crdrules,
    defaults,
    events,
    podspec,
    reviews,
    servicespec,
    validation,
    workloads,
)
from gm.devcluster.definitions import definitions
from gm.devcluster.gotime import timestamp
from gm.devcluster.info import ResourceInfo, User
from gm.devcluster.metadata import dns_label, service_name
from gm.devcluster.preparing import BuiltinBehaviour
from gm.devcluster.scalepaths import ScalePaths
from gm.devcluster.schema import Schema

__all__ = ["BINDING", "EVICTION", "resources"]

_CORE = "io.k8s.api.core.v1"
_SINGULAR = {"Endpoints": "endpoints"}


def _any_name(_name: str) -> str:
    """Events may be called anything."""
    return ""


def _status(value: Json) -> Callable[[Json], None]:
    """A new object's status is ``value``, whatever the client sent."""

    def begin(obj: Json) -> None:
        obj["status"] = dict(value)

    return begin


def _begin_pod(obj: Json) -> None:
    obj["status"] = {"phase": "Pending"}
    if (obj.get("spec") or {}).get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": timestamp(),
        }
        obj["status"]["conditions"] = [gated]


def _begin_namespace(obj: Json) -> None:
    obj["status"] = {"phase": "Active"}
    spec = obj.setdefault("spec", {})
    if "kubernetes" not in (finalizers := spec.setdefault("finalizers", [])):
        finalizers.append("kubernetes")


def _carry_namespace(new: Json, old: Json) -> None:
    new["spec"] = old.get("spec", {})  # finalizers leave through /finalize only


def _begin_crd(obj: Json) -> None:
    obj["status"] = {"acceptedNames": {"kind": "", "plural": ""}, "storedVersions": []}


_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")


def _carry_service(new: Json, old: Json) -> None:
    """What was given out stays given out when an update leaves it out."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if "ExternalName" in (before.get("type"), after.get("type")):
        return
    address = after.get("clusterIP")
    is_older_meant = after.get("clusterIPs") == before.get("clusterIPs")
    if address and address != before.get("clusterIP") and is_older_meant:
        after["clusterIPs"] = [address]
    for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if field in before and not after.get(field):
            after[field] = before[field]
    ports: list[Json] = after.get("ports") or []
    given = {p.get("name", ""): p.get("nodePort") for p in before.get("ports") or []}
    if after.get("type") in _WITH_NODE_PORTS:
        for port in ports:
            if not port.get("nodePort") and (number := given.get(port.get("name", ""))):
                port["nodePort"] = number
    elif before.get("type") in _WITH_NODE_PORTS:
        # The type changes, and what belonged to the former goes, unless it is said anew.
        for port in ports:
            if port.get("nodePort") == given.get(port.get("name", "")):
                port.pop("nodePort", None)
        for field in ("externalTrafficPolicy", "allocateLoadBalancerNodePorts"):
            if after.get(field) == before.get(field) and not after.get("externalIPs"):
                after.pop(field, None)


_POD = BuiltinBehaviour(
    begin=_begin_pod,
    defaults=defaults.pod,
    validate=podspec.pod,
    validate_change=podspec.pod_change,
    warn=podspec.pod_warnings,
    warns_on_update=False,
)
_SERVICE = BuiltinBehaviour(
    name_rule=service_name,
    begin=_status({"loadBalancer": {}}),
    defaults=defaults.service,
    validate=servicespec.service,
    carry=_carry_service,
    validate_change=servicespec.service_change,
)
_CRD = BuiltinBehaviour(
    begin=_begin_crd,
    defaults=defaults.custom_resource_definition,
    validate=crdrules.validate,
    validate_change=crdrules.validate_change,
    warn=crdrules.warnings,
    names_any_finalizer=True,
)
_PLAIN = BuiltinBehaviour()


def _info(
    schema: str,
    plural: str,
    behaviour: BuiltinBehaviour = _PLAIN,
    *,
    group: str = "",
    version: str = "v1",
    namespaced: bool = True,
    **more: Any,
) -> ResourceInfo:
    kind = schema.rsplit(".", 1)[1]
    resource = ResourceType(
        group=group, version=version, kind=kind, plural=plural, namespaced=namespaced
    )
    reference = {"$ref": f"#/components/schemas/{schema}"}
    settings: dict[str, Any] = {
        "storage": resource,
        "singular": _SINGULAR.get(kind, kind.lower()),
        "list_kind": f"{kind}List",
        "columns": columns.BUILTIN.get(kind, columns.DEFAULT),
        **more,
    }
    for field in ("short_names", "categories"):
        settings[field] = tuple(str(settings.get(field, "")).split())
    for field in ("subresources", "selectable_fields"):
        settings[field] = frozenset(str(settings.get(field, "")).split())
    return ResourceInfo(
        resource=resource,
        schema=Schema(reference, definitions()),
        behaviour=behaviour,
        **settings,
    )


_POSTED = BuiltinBehaviour(named=False)
BINDING = _info(f"{_CORE}.Binding", "bindings", _POSTED)
EVICTION = _info("io.k8s.api.policy.v1.Eviction", "evictions", _POSTED, group="policy")
"""What is posted to a pod; neither is a resource of its own."""


def _review(group: str, kind: str, answer: Callable[[Json, User], Json]) -> ResourceInfo:
    return _info(
        f"io.k8s.api.{group.partition('.')[0]}.v1.{kind}",
        f"{kind.lower()}s",
        BuiltinBehaviour(named=False),
        group=group,
        namespaced=False,
        verbs=("create",),
        answer=answer,
    )


_INVOLVED = " ".join(
    f"involvedObject.{field}"
    for field in ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
)
_EVENT_FIELDS = f"{_INVOLVED} reason reportingComponent source type"
_NEW_EVENT_FIELDS = (
    f"{_INVOLVED.replace('involvedObject', 'regarding')} reason reportingController type"
)
_POD_FIELDS = (
    "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork "
    "status.phase status.podIP status.nominatedNodeName"
)


def _core() -> Iterable[ResourceInfo]:
    config = BuiltinBehaviour(
        validate=validation.config_data, validate_change=validation.config_data_change
    )
    yield _info(f"{_CORE}.ConfigMap", "configmaps", config, short_names="cm")
    yield _info(
        f"{_CORE}.Endpoints",
        "endpoints",
        BuiltinBehaviour(defaults=defaults.endpoints),
        short_names="ep",
        warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    )
    yield _info(
        f"{_CORE}.Event",
        "events",
        BuiltinBehaviour(name_rule=_any_name, validate=validation.core_event),
        short_names="ev",
        selectable_fields=_EVENT_FIELDS,
    )
    yield _info(
        f"{_CORE}.Namespace",
        "namespaces",
        BuiltinBehaviour(
            name_rule=dns_label,
            begin=_begin_namespace,
            defaults=defaults.namespace,
            carry=_carry_namespace,
            validate=validation.namespace,
            validate_change=validation.namespace_change,
        ),
        namespaced=False,
        short_names="ns",
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources="status",
        selectable_fields="status.phase",
    )
    yield _info(
        f"{_CORE}.Node",
        "nodes",
        BuiltinBehaviour(
            defaults=defaults.node,
            validate=validation.node,
            validate_change=validation.node_change,
        ),
        namespaced=False,
        short_names="no",
        subresources="status",
        selectable_fields="spec.unschedulable",
    )
    yield _info(
        f"{_CORE}.PersistentVolumeClaim",
        "persistentvolumeclaims",
        BuiltinBehaviour(
            begin=_status({"phase": "Pending"}), defaults=defaults.persistent_volume_claim
        ),
        short_names="pvc",
        subresources="status",
    )
    yield _info(
        f"{_CORE}.Pod",
        "pods",
        _POD,
        short_names="po",
        categories="all",
        subresources="binding eviction log status",
        selectable_fields=_POD_FIELDS,
    )
    yield _info(
        f"{_CORE}.Secret",
        "secrets",
        BuiltinBehaviour(
            defaults=defaults.secret,
            validate=validation.secret,
            validate_change=validation.secret_change,
        ),
        selectable_fields="type",
    )
    yield _info(f"{_CORE}.ServiceAccount", "serviceaccounts", short_names="sa")
    yield _info(
        f"{_CORE}.Service",
        "services",
        _SERVICE,
        short_names="svc",
        categories="all",
        subresources="status",
        selectable_fields="spec.clusterIP spec.type",
    )


def _groups() -> Iterable[ResourceInfo]:
    yield _info(
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        "customresourcedefinitions",
        _CRD,
        group="apiextensions.k8s.io",
        namespaced=False,
        short_names="crd crds",
        categories="api-extensions",
        subresources="status",
    )
    for kind, short, rules in (
        (
            "Deployment",
            "deploy",
            BuiltinBehaviour(
                begin=_status({}),
                defaults=defaults.deployment,
                validate=workloads.deployment,
                validate_change=workloads.selector_change,
                warn=workloads.workload_warnings,
            ),
        ),
        (
            "ReplicaSet",
            "rs",
            BuiltinBehaviour(
                begin=_status({}),
                defaults=defaults.replica_set,
                validate=workloads.replica_set,
                validate_change=workloads.selector_change,
                warn=workloads.workload_warnings,
            ),
        ),
    ):
        yield _info(
            f"io.k8s.api.apps.v1.{kind}",
            f"{kind.lower()}s",
            rules,
            group="apps",
            short_names=short,
            categories="all",
            subresources="scale status",
            scale=ScalePaths(),
        )
    yield _info(
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        BuiltinBehaviour(begin=_status({}), defaults=defaults.horizontal_pod_autoscaler),
        group="autoscaling",
        version="v2",
        short_names="hpa",
        categories="all",
        subresources="status",
    )
    yield _info(
        "io.k8s.api.coordination.v1.Lease",
        "leases",
        BuiltinBehaviour(validate=validation.lease),
        group="coordination.k8s.io",
    )
    yield _info(
        "io.k8s.api.discovery.v1.EndpointSlice",
        "endpointslices",
        BuiltinBehaviour(defaults=defaults.endpoint_slice),
        group="discovery.k8s.io",
    )
    yield _info(
        "io.k8s.api.events.v1.Event",
        "events",
        BuiltinBehaviour(
            name_rule=_any_name,
            validate=lambda obj: validation.new_event(events.to_core(obj)),
            validate_change=lambda new, old: validation.new_event_change(
                events.to_core(new), events.to_core(old)
            ),
        ),
        group="events.k8s.io",
        short_names="ev",
        selectable_fields=_NEW_EVENT_FIELDS,
        storage=ResourceType(version="v1", kind="Event", plural="events"),
        to_storage=events.to_core,
        from_storage=events.to_events_v1,
    )


def _reviews() -> Iterable[ResourceInfo]:
    authorization = "authorization.k8s.io"
    yield _review("authentication.k8s.io", "SelfSubjectReview", reviews.self_review)
    yield _review(authorization, "SelfSubjectAccessReview", reviews.access_review)
    yield _review(authorization, "SelfSubjectRulesReview", reviews.rules_review)
    yield _review(authorization, "SubjectAccessReview", reviews.access_review)


def resources() -> list[ResourceInfo]:
    """All built-in resources, core kinds first."""
    return [*_core(), *_groups(), *_reviews()]
