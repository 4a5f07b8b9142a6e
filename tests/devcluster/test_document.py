"""docs/devcluster.md: what it says of differences is so, and each has a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gm.api.meta import Json
from tests.devcluster.core import Http, crd, mistakes, pod, widget
from tests.devcluster.golden.accepted import ACCEPTED
from tests.devcluster.test_kubectl_refused import OUT_OF_SCOPE

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "devcluster.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and "---" not in line]
ACCEPTED_LINES = {" ".join(accepted.line.split()) for accepted in ACCEPTED.values()}

CORE, APPS = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Rows that no request of the golden table shows, by their beginning: the test of each.
PROOFS = {
    "| `kubectl exec`": "test_kubectl_refused::test_what_is_out_of_scope",
    "| `kubectl debug`": "test_kubectl_refused::test_what_is_out_of_scope",
    "| `kubectl top`": "test_kubectl_refused::test_what_is_out_of_scope",
    "| `kubectl create deployment`": "test_kubectl_refused::test_what_is_out_of_scope",
    "| `kubectl autoscale`": "test_kubectl_refused::test_what_is_out_of_scope",
    "| OpenAPI v2": "test_openapi2::test_clients_that_ask_for_protobuf_get_it",
    "| `proxy` of": "test_document::test_what_is_not_served_says_so",
    "| `/metrics`": "test_document_http::test_what_a_server_tells_of_itself",
    "| watches over WebSocket": "test_document_http::test_upgrades_are_ignored",
    "| a request without the token": "test_server::test_without_the_token_there_is_no_answer",
    "| an object that is given twice": "test_document_http::test_of_what_is_given_twice",
    "| of a strategic patch": "test_document_http::test_a_strategic_patch_that_does_not_fit",
    "| an eviction whose": "test_binding::test_an_eviction_of_another_pod_changes_nothing",
    "| a label that is wrong": "test_document_http::test_a_label_that_is_wrong_is_named_once",
    "| the log of a pod whose node": "test_logs::test_the_address_of_a_node",
    "| Content-Types are read": "test_document_http::test_content_types_are_read_in_any_case",
    "| a URL or a header": "test_document_http::test_headers_may_have_64_kib",
    "| a request that is not HTTP/1.1": "test_document_http::test_methods_that_http_does_not_know",
    "| `?verbose` of": "test_document_http::test_probes_and_the_version_say_what_there_is",
    "| bytes that are given as a list": "test_document_http::test_bytes_are_texts",
    "| deprecated paths": "test_document::test_what_is_not_served_says_so",
    "| `x-kubernetes-validations`": "test_crds::test_what_is_not_done_here_is_told",
    "| a whole object is validated": "test_hard_input::test_a_kind_that_becomes_stricter",
    "| a printer column whose JSONPath": "test_crds::test_what_is_not_done_here_is_told",
    "| priority classes": "test_document::test_what_nothing_knows_is_taken",
    "| deployments, replica sets": "test_document::test_a_deployment_is_kept_and_that_is_all",
    "| what is nested more": "test_document::test_objects_are_nested_to_some_depth",
    "| several things that are wrong": "test_document::test_mistakes_are_named_in_order",
    "| metadata in a write of a custom": "test_api::test_status_and_spec_have_paths_of_their_own",
    "| a service is created by PUT": "test_document::test_a_service_is_not_created_in_part",
    "| a service without a name": "test_document::test_a_service_without_a_name_is_refused",
    "| `cannot unmarshal number into": "test_document::test_types_are_those_of_the_schema",
    "| there is no service `kubernetes`": "test_document::test_nothing_is_there_at_first",
    "| a write that changes nothing but": "test_document::test_owners_of_fields_are_not_kept",
    "| sysctls, seccomp": "test_document::test_what_nothing_knows_is_taken",
    "| the formats isbn": "test_document::test_formats_that_are_not_checked",
    "| a claim of a volume": "test_document::test_a_claim_has_no_protection",
    "| `1.0` and `1e3`": "test_document::test_whole_numbers_may_be_written_as_others",
}
HEADS = ("| request |", "| here |")


@pytest.mark.parametrize("row", [row for row in ROWS if not row.startswith(HEADS)])
def test_every_difference_has_a_test(row: str) -> None:
    """A golden request whose answer is another, or a test that is named above."""
    if any(line in row for line in ACCEPTED_LINES):
        return
    (proof,) = (name for beginning, name in PROOFS.items() if row.startswith(beginning))
    module, _, test = proof.partition("::")
    source = (ROOT / "tests" / "devcluster" / f"{module}.py").read_text()
    assert re.search(rf"def {test}", source), proof


def test_every_command_of_kubectl_that_is_refused_is_named() -> None:
    """And the document names none that is not tried."""
    table = " ".join(row for row in ROWS if "kubectl" in row)
    for command in OUT_OF_SCOPE:
        assert re.search(rf"\b{command.split()[0]}\b", table) or command.split()[0] in (
            "drain",
            "get",
        ), command


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{CORE}/services/s/proxy", 501),
        (f"{CORE}/pods/p/proxy", 501),
        ("/api/v1/nodes/n/proxy/metrics", 501),
        ("/api/v1/watch/pods", 404),
        (f"{CORE}/bindings", 404),
        (f"{CORE}/pods/p/resize", 404),
        (f"{CORE}/pods/p/ephemeralcontainers", 501),
    ],
)
async def test_what_is_not_served_says_so(http: Http, path: str, status: int) -> None:
    """With a Status that clients can show."""
    for there, obj in (
        (f"{CORE}/pods", pod("p", schedulerName="none")),
        (f"{CORE}/services", service("s")),
        ("/api/v1/nodes", {"metadata": {"name": "n"}}),
    ):
        assert (await http("POST", there, obj)).status == 201
    answer = await http("GET", path)
    assert (answer.status, answer.json["kind"]) == (status, "Status")


def service(name: str) -> Json:
    """A service."""
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}


@pytest.mark.parametrize(
    "spec",
    [
        {"priorityClassName": "absent", "priority": 0},
        {"runtimeClassName": "absent"},
        {"securityContext": {"sysctls": [{"name": "no such", "value": "x"}]}},
        {"securityContext": {"seccompProfile": {"type": "Odd"}}},
        {"volumes": [{"name": "v", "iscsi": {"targetPortal": "", "iqn": "x", "lun": 0}}]},
    ],
)
def test_what_nothing_knows_is_taken(spec: Json) -> None:
    """As it is."""
    assert mistakes("pods", pod("p", **spec)) == []


async def test_a_deployment_is_kept_and_that_is_all(http: Http) -> None:
    """No replica sets, no pods, no status."""
    labels = {"a": "b"}
    deployment = {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod("p")["spec"]},
        },
    }
    assert (await http("POST", f"{APPS}/deployments", deployment)).status == 201
    assert (await http("GET", f"{APPS}/deployments/d")).json["status"] == {}
    assert (await http("GET", f"{APPS}/replicasets")).json["items"] == []


def test_mistakes_are_named_in_order() -> None:
    """Those of metadata first, then from the beginning of the spec to its end."""
    wrong = pod("p", restartPolicy="Foo", containers=[{"name": "", "image": "i"}])
    wrong["metadata"]["labels"] = {"a b": "c"}
    fields = [line.partition(":")[0] for line in mistakes("pods", wrong)]
    assert fields == ["metadata.labels", "spec.containers[0].name", "spec.restartPolicy"]


async def test_a_service_is_not_created_in_part(http: Http) -> None:
    """By a PUT to its status; one to its own path makes all of it."""
    assert (await http("PUT", f"{CORE}/services/s/status", service("s"))).status == 404
    made = await http("PUT", f"{CORE}/services/s", service("s"))
    assert (made.status, bool(made.json["spec"]["clusterIP"])) == (201, True)


async def test_a_service_without_a_name_is_refused(http: Http) -> None:
    """At once."""
    answer = await http("POST", f"{CORE}/services", {"spec": {"ports": [{"port": 80}]}})
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")


async def test_types_are_those_of_the_schema(http: Http) -> None:
    """A policy is a text."""
    answer = await http("POST", f"{CORE}/pods", pod("p", restartPolicy=5))
    why = "cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type string"
    assert answer.status == 400
    assert answer.json["message"].endswith(why)


@pytest.mark.parametrize(("depth", "status"), [(150, 201), (250, 400)])
async def test_objects_are_nested_to_some_depth(http: Http, depth: int, status: int) -> None:
    """And no deeper, in a field in which anything may be."""
    definition = crd("Gear")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["any"] = {"x-kubernetes-preserve-unknown-fields": True}
    assert (await http("POST", CRDS, definition)).status == 201
    body = b'{"apiVersion":"example.com/v1","kind":"Gear","metadata":{"name":"g"},'
    body += b'"spec":{"size":1},"any":%b1%b}' % (b'{"a":' * depth, b"}" * depth)
    path = "/apis/example.com/v1/namespaces/default/gears"
    assert (await http("POST", path, body)).status == status


async def test_nothing_is_there_at_first(http: Http) -> None:
    """In the namespace ``default``."""
    assert (await http("GET", f"{CORE}/services")).json["items"] == []
    assert (await http("GET", f"{CORE}/endpoints")).json["items"] == []


async def test_owners_of_fields_are_not_kept(http: Http) -> None:
    """Nor does a write by somebody else make another version."""
    path = "/apis/example.com/v1/namespaces/default/widgets"
    made = (await http("POST", path, widget("w"))).json
    same = {"spec": {"size": 1}}
    kind = "application/merge-patch+json"
    told = await http("PATCH", f"{path}/w?fieldManager=other", same, content_type=kind)
    assert told.json == made
    assert "managedFields" not in made["metadata"]


@pytest.mark.parametrize(
    "name",
    ["isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "bsonobjectid"],
)
async def test_formats_that_are_not_checked(http: Http, name: str) -> None:
    """Nor is there a warning about a format that nobody knows."""
    definition = crd("Gear")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["color"] = {"type": "string", "format": name}
    made = await http("POST", CRDS, definition)
    assert (made.status, made.headers.get("Warning")) == (201, None)
    gear: Json = {**widget("g"), "kind": "Gear", "spec": {"size": 1, "color": "none of it"}}
    path = "/apis/example.com/v1/namespaces/default/gears"
    assert (await http("POST", path, gear)).status == 201


async def test_a_claim_has_no_protection(http: Http) -> None:
    """It goes at once."""
    claim: Json = {
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    path = f"{CORE}/persistentvolumeclaims"
    assert "finalizers" not in (await http("POST", path, claim)).json["metadata"]
    assert (await http("DELETE", f"{path}/c")).status == 200
    assert (await http("GET", f"{path}/c")).status == 404


@pytest.mark.parametrize(("number", "read"), [(b"3.0", 3), (b"1e1", 10)])
async def test_whole_numbers_may_be_written_as_others(http: Http, number: bytes, read: Any) -> None:
    """In built-in kinds, too."""
    body = (
        b'{"metadata":{"name":"p"},"spec":{"schedulerName":"none","activeDeadlineSeconds":%b,'
        % (number)
    )
    body += b'"containers":[{"name":"c","image":"i"}]}}'
    made = await http("POST", f"{CORE}/pods", body)
    assert made.json["spec"]["activeDeadlineSeconds"] == read
