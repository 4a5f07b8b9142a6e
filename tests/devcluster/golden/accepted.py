"""Where the embedded server's answers are meant to differ from a real one's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gm.api.meta import Json

__all__ = ["ACCEPTED", "Accepted"]


@dataclass(frozen=True)
class Accepted:
    """A difference that is meant: where docs/devcluster.md says so, and what we answer instead.

    ``instead`` maps dotted places of the answer to what stands there; None is for nothing.
    """

    line: str
    instead: dict[str, Any]


PATCHES = "application/json-patch+json, application/merge-patch+json"
APPLIED = "server-side apply is not supported here; use kubectl apply without --server-side"
UNKNOWN_FORMAT = "the body of the request was in an unknown format - accepted media types include: "
HEXADECIMAL = "Nf6e3aNa6bNeNaNf6eNdN ..."
CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative): "
)
NO_YAML = "the object provided is unrecognized (must be of type "
NO_PROTOBUF = "only the following media types are accepted: application/json, application/yaml"
OTHER_KIND = "Invalid value: OBJECT kind and apiVersion can not be changed"


def failure(code: int, reason: str, message: str) -> Json:
    """The body of an answer that says no."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def invalid(kind: str, group: str, name: str, field: str, why: str) -> Json:
    """The body of an answer that names one field that is wrong."""
    reason = "FieldValueNotSupported"
    return {
        **failure(422, "Invalid", f'{kind}.{group} "{name}" is invalid: {field}: {why}'),
        "details": {
            "causes": [{"field": field, "message": why, "reason": reason}],
            "group": group,
            "kind": kind,
            "name": name,
        },
    }


def refused(line: str, code: int, reason: str, message: str) -> Accepted:
    """Where the real server may do something, ours says no."""
    instead = {"status": code, "type": "application/json", "body": failure(code, reason, message)}
    return Accepted(line, instead)


def fixed(pod: str, fields: str, before: str = "") -> Accepted:
    """A refused change of a pod, which shows what would change, in ours by name.

    ``before`` is another cause, that comes first.
    """
    why = f"Forbidden: {CHANGEABLE}{fields} would change"
    causes = f"[{before}, spec: {why}]" if before else f"spec: {why}"
    return Accepted(
        "a refused change of a pod names the fields that would change",
        {
            "body.message": f'Pod "{pod}" is invalid: {causes}',
            f"body.details.causes.{1 if before else 0}.message": why,
        },
    )


def offered(name: str, media_types: str = "application/json, application/yaml") -> Accepted:
    """406, where nothing can be had as protobuf."""
    message = f"only the following media types are accepted: {media_types}"
    instead: dict[str, Any] = {"body.message": message}
    if "text/html" in name:  # which another part of the real server turns away
        instead["body.details"] = None
    return Accepted("| protobuf answers | never given", instead)


def listed(kind: str, **more: Any) -> Accepted:
    """What says that any type of application will do."""
    body = {"kind": kind, "apiVersion": "v1", **more}
    return Accepted("`Accept: application/*` is served", {"status": 200, "body": body})


APPLY = refused(
    "| `kubectl apply --server-side` | 415 with the hint",
    415,
    "UnsupportedMediaType",
    f"{UNKNOWN_FORMAT}{PATCHES} ({APPLIED})",
)
KEPT = (
    "spec.tolerations: Forbidden: existing toleration can not be modified except its "
    "tolerationSeconds"
)
NO_LIST = (
    "Invalid value: OBJECT json: cannot unmarshal string into Go struct field "
    "PodSpec.spec.containers of type []v1.Container"
)
UNREADABLE = "the body of a DELETE that can not be read is answered with 400"
NO_DOCUMENT = Accepted(
    "only versions of groups have a document of OpenAPI v3",
    {"status": 404, "type": "text/plain; charset=utf-8", "body": "404 page not found\n"},
)
ESTABLISHED = "a CRD is established and described in the answer to the request that creates it"
PARSERS = "in the words of Python's libraries, where they differ"
TYPES = "a patch of an unknown Content-Type is told which are known (`apply-patch+yaml` is not)"
UNDESCRIBED = Accepted(
    "columns of built-in kinds and of scales have no descriptions",
    {f"body.columnDefinitions.{n}.description": "" for n in (1, 2, 3)},
)
WARNINGS = Accepted("a refused write has no warnings", {"warning": ""})

ACCEPTED: dict[str, Accepted] = {
    "crd": Accepted(
        ESTABLISHED,
        {
            "body.status.acceptedNames": {
                "kind": "Widget",
                "listKind": "WidgetList",
                "plural": "widgets",
                "singular": "widget",
            },
            "body.status.conditions": [
                {
                    "lastTransitionTime": "TIME",
                    "message": message,
                    "reason": reason,
                    "status": "True",
                    "type": kind,
                }
                for kind, reason, message in (
                    ("NamesAccepted", "NoConflicts", "no conflicts found"),
                    (
                        "Established",
                        "InitialNamesAccepted",
                        "the initial names have been accepted",
                    ),
                )
            ],
        },
    ),
    "stored crd": Accepted(ESTABLISHED, {"body.metadata.resourceVersion": "version 1"}),
    "apply": APPLY,
    "apply that conflicts": APPLY,
    "apply by force": APPLY,
    "apply without a manager": APPLY,
    "merge patch of the version": WARNINGS,
    "wrong version": WARNINGS,
    "strategic patch of a custom resource": Accepted(
        TYPES, {"body.message": UNKNOWN_FORMAT + PATCHES}
    ),
    "patch of a wrong content type": Accepted(TYPES, {"body.message": UNKNOWN_FORMAT + PATCHES}),
    "built-in, patched as yaml": Accepted(
        TYPES,
        {
            "body.message": f"{UNKNOWN_FORMAT}{PATCHES}, application/strategic-merge-patch+json",
            "body.details": None,
        },
    ),
    "yaml, a key that is nothing": Accepted(
        PARSERS,
        {
            "body.message": f"{NO_YAML}ConfigMap): unsupported map key: only text, numbers and "
            f"booleans can be keys ({HEXADECIMAL})"
        },
    ),
    "yaml, what contains itself": Accepted(
        PARSERS,
        {
            "body.message": f"{NO_YAML}ConfigMap): yaml: the value of an anchor contains itself "
            f"({HEXADECIMAL})"
        },
    ),
    "a number: 1e999": Accepted(
        PARSERS,
        {
            "body.message": f"{NO_YAML}Widget): couldn't get version/kind; json parse error: json: "
            'cannot unmarshal number 1eN into Go value of type floatN ({"apiVersion":"g-NS. ...)'
        },
    ),
    "crd with a bad pattern": Accepted(
        PARSERS,
        {
            "body.message": 'CustomResourceDefinition.apiextensions.k8s.io "bads.GROUP" is '
            "invalid: spec.validation.openAPIV3Schema.properties[spec].properties[f].pattern: "
            'Invalid value: "(": must be a valid regular expression, but isn\'t',
            "body.details.causes.0.message": 'Invalid value: "(": must be a valid regular '
            "expression, but isn't",
        },
    ),
    "built-in of another version": Accepted(
        PARSERS,
        {
            "body.message": 'ConfigMap in version "v7" cannot be handled as a ConfigMap: no kind '
            '"ConfigMap" is registered for version "v7"'
        },
    ),
    "unknown answer": Accepted("| protobuf answers | never given", {"body.message": NO_PROTOBUF}),
    "protobuf answer of a custom resource": refused(
        "| protobuf answers | never given", 406, "NotAcceptable", NO_PROTOBUF
    ),
    "delete with no JSON": refused(
        UNREADABLE,
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type DeleteOptions): couldn't get "
        "version/kind; json parse error: invalid character 'b' looking for beginning of object key "
        "string ({bad)",
    ),
    "strategic patch of what is fixed": fixed("pp", "hostNetwork"),
    "a change of one variable": fixed("much-changed", "containers"),
    "a change of an order": fixed("much-changed", "containers"),
    "a change of a volume": fixed("much-changed", "volumes"),
    "a change of keys to keep": fixed("much-changed", "schedulerName", KEPT),
    "a change of a text for containers": Accepted(
        "in the words of Python's libraries, where they differ",
        {
            "body.message": f' "" is invalid: patch: {NO_LIST}',
            "body.details.causes.0.message": NO_LIST,
        },
    ),
    "as 'application/*'": listed("ConfigMapList", names=["c1", "c2"]),
    "one as 'application/*'": listed("ConfigMap", names=[]),
    **{
        name: offered(name)
        for kind in (
            "text/html",
            "application/json;as=Table;v=v7;g=meta.k8s.io",
            "application/json;as=Table;v=v1;g=other.io",
            "application/json;as=Foo;v=v1;g=meta.k8s.io",
        )
        for name in (f"as {kind!r}", f"one as {kind!r}")
    },
    "watch as yaml": Accepted(
        "what is refused is told in JSON, also why a watch can not begin",
        {
            "type": "application/json",
            "body": [
                failure(
                    406,
                    "NotAcceptable",
                    "only the following media types are accepted: application/json;stream=watch",
                )
            ],
        },
    ),
    "deleted with options of another kind": Accepted(
        UNREADABLE,
        {
            "status": 400,
            "body": failure(400, "BadRequest", 'no kind "Foo" is registered for version "v1"'),
        },
    ),
    "not here: /openapi/v3/apis/nope/v1": NO_DOCUMENT,
    "not here: /openapi/v3/api": NO_DOCUMENT,
    "built-in, patched to another kind": Accepted(
        "a merge or JSON patch that makes another kind of a built-in object is refused as such",
        {
            "body.message": f' "" is invalid: patch: {OTHER_KIND}',
            "body.details.causes.0.message": OTHER_KIND,
        },
    ),
    "built-ins as a table": Accepted(
        UNDESCRIBED.line,
        {f"body.columnDefinitions.{n}.description": "" for n in (1, 2)},
    ),
    "access review": Accepted(
        "every access review is answered with yes, with a reason that says so",
        {
            "body.status.reason": "the embedded API server has no RBAC: whoever has its token may "
            "do everything"
        },
    ),
    "token review": Accepted(
        "other kinds that are not listed above | 404",
        {
            "status": 404,
            "type": "application/json",
            "body": {
                **failure(404, "NotFound", "the server could not find the requested resource"),
                "details": {},
            },
        },
    ),
    "custom: scale strategically": Accepted(TYPES, {"body.message": UNKNOWN_FORMAT + PATCHES}),
    "deployment: scale as a table": Accepted(
        UNDESCRIBED.line, {**UNDESCRIBED.instead, "body.columnDefinitions.0.description": ""}
    ),
    "custom: scale as a table": UNDESCRIBED,
    "a definition with conversion by webhook": Accepted(
        "| CRD conversion by webhook | refused when the CRD is written",
        {
            "status": 422,
            "body": invalid(
                "CustomResourceDefinition",
                "apiextensions.k8s.io",
                "foos.GROUP",
                "spec.conversion.strategy",
                'Unsupported value: "Webhook": supported values: "None"',
            ),
        },
    ),
}
