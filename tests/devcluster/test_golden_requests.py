"""Each request of a table, to a real kube-apiserver and to ours: the same answer, word for word.

tests/golden/apiserver.json holds the real one's answers, so that this means something where there
is none; where there is, its answers are compared with the file as well.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gm.api.meta import Json
from tests.cluster.cluster import Cluster
from tests.devcluster.asking import ask
from tests.devcluster.golden_requests import STEPS

ROOT = Path(__file__).parents[2]
RECORDED: dict[str, Json] = json.loads((ROOT / "tests" / "golden" / "apiserver.json").read_text())[
    "answers"
]
DOCUMENT = " ".join((ROOT / "docs" / "devcluster.md").read_text().split())


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
FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative): "
    "hostNetwork would change"
)
NO_YAML = "the object provided is unrecognized (must be of type "
NOT_FOUND = {
    "status": 404,
    "type": "text/plain; charset=utf-8",
    "body": "404 page not found\n",
}
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


def refused(line: str, code: int, reason: str, message: str) -> Accepted:
    """Where the real server may do something, ours says no."""
    instead = {"status": code, "type": "application/json", "body": failure(code, reason, message)}
    return Accepted(line, instead)


APPLY = refused(
    "| `kubectl apply --server-side` | 415 with the hint",
    415,
    "UnsupportedMediaType",
    f"{UNKNOWN_FORMAT}{PATCHES} ({APPLIED})",
)
ESTABLISHED = "a CRD is established and described in the answer to the request that creates it"
PARSERS = "in the words of Python's libraries, where they differ"
TYPES = "a patch of an unknown Content-Type is told which are known (`apply-patch+yaml` is not)"
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
        "the body of a DELETE that is no JSON is answered with 400",
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type DeleteOptions): couldn't get "
        "version/kind; json parse error: invalid character 'b' looking for beginning of object key "
        "string ({bad)",
    ),
    "strategic patch of what is fixed": Accepted(
        "a refused change of a pod names the fields that would change",
        {
            "body.message": f'Pod "pp" is invalid: spec: Forbidden: {FIXED}',
            "body.details.causes.0.message": f"Forbidden: {FIXED}",
        },
    ),
    "events of the newer group": Accepted(
        'texts that are empty are kept (`value: ""`)',
        {"body.items.0.reportingController": "", "body.items.0.reportingInstance": ""},
    ),
    "built-in, patched to another kind": Accepted(
        "a patch that makes another kind of a built-in object is refused as such",
        {
            "body.message": f' "" is invalid: patch: {OTHER_KIND}',
            "body.details.causes.0.message": OTHER_KIND,
        },
    ),
    "built-ins as a table": Accepted(
        "columns of built-in kinds have no descriptions",
        {f"body.columnDefinitions.{n}.description": "" for n in (1, 2)},
    ),
    "openapi of version 2": Accepted("| OpenAPI v2 | 404", NOT_FOUND),
    "access review": Accepted(
        "every access review is answered with yes, with a reason that says so",
        {
            "body.status.reason": "the embedded API server has no RBAC: whoever has its token may "
            "do everything"
        },
    ),
    "token review": Accepted("other kinds that are not listed above | 404", NOT_FOUND),
}

_answers: dict[str, dict[str, Json]] = {}


@pytest.fixture
async def answers(cluster: Cluster) -> dict[str, Json]:
    """The answers of one server; it is asked once for all tests."""
    if cluster.kind not in _answers:
        async with cluster.client() as client:
            _answers[cluster.kind] = await ask(client, cluster.namespace)
    return _answers[cluster.kind]


def put(answer: Json, place: str, value: Any) -> None:
    """Set, or take out, what stands at a dotted place."""
    *parents, last = place.split(".")
    here: Any = answer
    for part in parents:
        here = here[int(part)] if isinstance(here, list) else here[part]
    if value is None:
        del here[last]
    else:
        here[last] = value


def expected(name: str, kind: str) -> Json:
    """What a server should answer."""
    answer: Json = json.loads(json.dumps(RECORDED[name]))
    if kind == "embedded" and name in ACCEPTED:
        for place, value in ACCEPTED[name].instead.items():
            put(answer, place, value)
    return answer


@pytest.mark.parametrize("name", [step.name for step in STEPS])
async def test_a_request_is_answered_as_by_a_real_server(
    cluster: Cluster, answers: dict[str, Json], name: str
) -> None:
    """Status, content type, warning and body, after what differs from run to run is taken out."""
    assert answers[name] == expected(name, cluster.kind)


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_accepted_difference_is_one_and_is_written_down(name: str) -> None:
    """The list holds nothing that has been fixed, and the document says why of each."""
    assert expected(name, "embedded") != RECORDED[name]
    assert ACCEPTED[name].line in DOCUMENT


def test_every_request_has_a_recorded_answer() -> None:
    """Whoever adds a request records the real server's answer."""
    assert list(RECORDED) == [step.name for step in STEPS]
