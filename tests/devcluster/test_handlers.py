"""Requests for resources, over HTTP."""

from __future__ import annotations

import io
from typing import Any

import pytest
import yaml

from gm.devcluster.answers import MAX_BODY_BYTES
from tests.devcluster.core import Http, pod, widget

DEFAULT = "/api/v1/namespaces/default"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


async def test_a_round_of_all_verbs(http: Http) -> None:
    """Create, get, update, patch, list, delete."""
    created = await http("POST", WIDGETS, widget("w"))
    assert (created.status, created.headers["Content-Type"]) == (201, "application/json")
    assert created.headers["Cache-Control"] == "no-cache, private"
    path = f"{WIDGETS}/w"
    assert (await http("GET", path)).json == created.json
    replaced = await http("PUT", path, {**created.json, "spec": {"size": 2}})
    assert (replaced.status, replaced.json["metadata"]["generation"]) == (200, 2)
    patched = await http("PATCH", path, {"spec": {"size": 3}}, content_type=MERGE)
    assert patched.json["spec"] == {"size": 3, "color": "red"}
    listed = await http("GET", WIDGETS)
    assert listed.json["kind"] == "WidgetList"
    assert listed.json["items"] == [patched.json]
    deleted = await http("DELETE", path)
    assert deleted.json["status"] == "Success"
    assert (await http("GET", path)).status == 404


async def test_the_three_kinds_of_patch(http: Http) -> None:
    """Strategic for built-ins only; a patch that creates nothing."""
    await http("POST", f"{DEFAULT}/configmaps", CONFIG_MAP)
    path = f"{DEFAULT}/configmaps/c"
    await http("PATCH", path, {"data": {"a": "1"}}, content_type=MERGE)
    await http("PATCH", path, {"data": {"b": "2"}}, content_type=STRATEGIC)
    operations = [{"op": "add", "path": "/data/c", "value": "3"}]
    answer = await http("PATCH", path, operations, content_type=JSON_PATCH)
    assert answer.json["data"] == {"a": "1", "b": "2", "c": "3"}
    assert (await http("PATCH", f"{WIDGETS}/x", {}, content_type=MERGE)).status == 404
    await http("POST", WIDGETS, widget("w"))
    assert (await http("PATCH", f"{WIDGETS}/w", {}, content_type=STRATEGIC)).status == 415
    refused = await http("PATCH", path, {}, content_type="application/apply-patch+yaml")
    assert "kubectl apply without --server-side" in refused.json["message"]


async def test_status_through_its_own_path(http: Http) -> None:
    """GET, PUT and PATCH; kinds without the subresource have no such path."""
    await http("POST", WIDGETS, widget("w"))
    path = f"{WIDGETS}/w/status"
    body = {"status": {"phase": "A"}, "spec": {"size": 9}}
    patched = await http("PATCH", path, body, content_type=MERGE)
    assert (patched.json["status"], patched.json["spec"]["size"]) == ({"phase": "A"}, 1)
    put = await http("PUT", path, {**patched.json, "status": {"phase": "B"}})
    assert put.json["status"] == {"phase": "B"}
    assert (await http("GET", path)).json == put.json
    assert (await http("DELETE", path)).status == 405
    missing = await http("GET", f"{DEFAULT}/configmaps/c/status")
    assert missing.status == 404
    assert missing.json["message"] == "the server could not find the requested resource"


async def test_binding_and_eviction(http: Http) -> None:
    """The two things that are done to pods by others."""
    await http("POST", f"{DEFAULT}/pods", pod("p", schedulerName="mine"))
    body = {"kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    bound = await http("POST", f"{DEFAULT}/pods/p/binding", body)
    assert (bound.status, bound.json["status"]) == (201, "Success")
    assert (await http("GET", f"{DEFAULT}/pods/p")).json["spec"]["nodeName"] == "n"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    evicted = await http("POST", f"{DEFAULT}/pods/p/eviction", eviction)
    assert evicted.status == 201
    assert "deletionTimestamp" in (await http("GET", f"{DEFAULT}/pods/p")).json["metadata"]


async def test_finalizing_a_namespace(http: Http) -> None:
    """As namespace controllers do."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    created = await http("POST", "/api/v1/namespaces", namespace)
    body = {**created.json, "spec": {"finalizers": ["kubernetes", "x.io/f"]}}
    path = "/api/v1/namespaces/x/finalize"
    answer = await http("PUT", f"{path}?dryRun=All", body)
    assert answer.json["spec"]["finalizers"] == ["kubernetes", "x.io/f"]
    stored = await http("GET", "/api/v1/namespaces/x")
    assert stored.json["spec"]["finalizers"] == ["kubernetes"]
    answer = await http("PUT", path, body)
    assert answer.json["spec"]["finalizers"] == ["kubernetes", "x.io/f"]
    assert (await http("PUT", path, body)).status == 409
    for wrong, status in (({}, 400), ({**namespace, "spec": {"finalizers": ["bad"]}}, 422)):
        assert (await http("PUT", path, wrong)).status == status
    assert (await http("GET", path)).status == 405
    deleted = await http("DELETE", "/api/v1/namespaces/x")
    assert deleted.json["status"]["phase"] == "Terminating"
    assert (await http("PUT", path, namespace)).status == 200
    assert (await http("GET", "/api/v1/namespaces/x")).status == 404


async def test_a_namespace_s_status_without_a_phase(http: Http) -> None:
    """It is active, as long as it is not deleted."""
    body = {"metadata": {"name": "default"}, "status": {}}
    answer = await http("PUT", "/api/v1/namespaces/default/status", body)
    assert (answer.status, answer.json["status"]) == (200, {"phase": "Active"})


@pytest.mark.parametrize("part", ["exec", "attach", "portforward", "proxy"])
async def test_what_only_a_full_cluster_can(http: Http, part: str) -> None:
    """It says so, of a pod that exists."""
    assert (await http("GET", f"{DEFAULT}/pods/p/{part}")).status == 404
    await http("POST", f"{DEFAULT}/pods", pod("p"))
    answer = await http("GET", f"{DEFAULT}/pods/p/{part}")
    assert answer.status == 501
    assert answer.json["message"] == (
        f"{part} is not supported by this API server: it is no full cluster"
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", f"{DEFAULT}/configmaps"),
        ("PATCH", f"{DEFAULT}/configmaps"),
        ("POST", f"{DEFAULT}/configmaps/c"),
        ("OPTIONS", f"{DEFAULT}/configmaps"),
        ("DELETE", "/api/v1/namespaces"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
async def test_methods_that_a_path_does_not_have(http: Http, method: str, path: str) -> None:
    """405 as a Status."""
    answer = await http(method, path)
    assert (answer.status, answer.json["reason"]) == (405, "MethodNotAllowed")


async def test_a_cluster_scoped_kind_has_no_namespace(http: Http) -> None:
    """404."""
    assert (await http("GET", f"{DEFAULT}/nodes")).status == 404


async def test_reviews_answer_and_store_nothing(http: Http) -> None:
    """kubectl auth can-i."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    answer = await http("POST", path, body)
    assert (answer.status, answer.json["status"]["allowed"]) == (201, True)
    assert answer.json["kind"] == "SelfSubjectAccessReview"


# -- bodies ---------------------------------------------------------------------------------


async def test_bodies_in_yaml(http: Http) -> None:
    """Equal to JSON."""
    body = yaml.safe_dump({**CONFIG_MAP, "data": {"when": "2026-01-01"}}).encode()
    path = f"{DEFAULT}/configmaps"
    answer = await http("POST", path, body, content_type="application/yaml")
    assert answer.json["data"] == {"when": "2026-01-01"}


@pytest.mark.parametrize("content_type", ["application/x-foo", "text/plain", "", "text/plain;a=b"])
async def test_bodies_of_other_types_are_refused(http: Http, content_type: str) -> None:
    """A web page can send text/plain to us without asking; it must not get through."""
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}'
    path = f"{DEFAULT}/configmaps"
    answer = await http("POST", path, body, content_type=content_type)
    assert (answer.status, answer.json["reason"]) == (415, "UnsupportedMediaType")
    assert (await http("PATCH", f"{path}/c", body, content_type=content_type)).status == 415


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{bad", "invalid character 'b' looking for beginning of object key string ({bad)"),
        (b"", "unexpected end of JSON input"),
        (b"[]", "cannot unmarshal array"),
        (b"{}", "Object 'Kind' is missing in '{}'"),
    ],
)
async def test_bodies_that_are_no_objects(http: Http, body: bytes, message: str) -> None:
    """400 with what is wrong."""
    answer = await http("POST", WIDGETS, body)
    assert answer.status == 400
    assert message in answer.json["message"]


async def test_a_body_that_is_too_large(http: Http) -> None:
    """413."""
    body = b'{"x":"' + b"x" * MAX_BODY_BYTES + b'"}'
    headers = {"Authorization": f"Bearer {http.server.token}", "Content-Type": "application/json"}
    url = http.server.url + WIDGETS
    async with http.session.post(url, data=io.BytesIO(body), headers=headers) as response:
        answer = await response.json()
    assert (response.status, answer["reason"]) == (413, "RequestEntityTooLarge")


async def test_warnings_are_headers(http: Http) -> None:
    """kubectl prints them; quotes are escaped."""
    odd = widget("w")
    odd["spec"] |= {"bogus": 1, "more": 2}
    answer = await http("POST", WIDGETS, odd)
    assert sorted(answer.headers.getall("Warning")) == [
        '299 - "unknown field \\"spec.bogus\\""',
        '299 - "unknown field \\"spec.more\\""',
    ]


@pytest.mark.parametrize(
    ("query", "kind"),
    [("dryRun=Some", "CreateOptions"), ("fieldValidation=Foo", "CreateOptions")],
)
async def test_options_that_do_not_exist(http: Http, query: str, kind: str) -> None:
    """422 about the options."""
    answer = await http("POST", f"{DEFAULT}/configmaps?{query}", CONFIG_MAP)
    assert (answer.status, answer.json["details"]["kind"]) == (422, kind)


async def test_a_dry_run(http: Http) -> None:
    """Everything but the commit, on every verb."""
    path = f"{DEFAULT}/configmaps"
    assert (await http("POST", f"{path}?dryRun=All", CONFIG_MAP)).status == 201
    assert (await http("GET", f"{path}/c")).status == 404
    await http("POST", path, CONFIG_MAP)
    change = {"data": {"a": "b"}}
    shown = await http("PATCH", f"{path}/c?dryRun=All", change, content_type=MERGE)
    assert shown.json["data"] == {"a": "b"}
    assert (await http("DELETE", f"{path}/c?dryRun=All")).status == 200
    assert "data" not in (await http("GET", f"{path}/c")).json


async def test_deletecollection(http: Http) -> None:
    """By selector; the answer lists what was deleted."""
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        await http("POST", WIDGETS, widget(name, labels={"l": label}))
    answer = await http("DELETE", f"{WIDGETS}?labelSelector=l%3Dx")
    assert [i["metadata"]["name"] for i in answer.json["items"]] == ["a", "b"]
    assert [i["metadata"]["name"] for i in (await http("GET", WIDGETS)).json["items"]] == ["c"]


async def test_delete_options_in_the_body(http: Http) -> None:
    """As clients send them."""
    await http("POST", WIDGETS, widget("w"))
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}}
    assert (await http("DELETE", f"{WIDGETS}/w", body)).status == 409
    body = {"propagationPolicy": "Foreground"}
    assert (await http("DELETE", f"{WIDGETS}/w", body)).json["kind"] == "Widget"
    await http.until(f"{WIDGETS}/w", lambda answer: answer.status == 404)


# -- forms ----------------------------------------------------------------------------------


async def test_tables(http: Http) -> None:
    """For one object and for lists."""
    await http("POST", WIDGETS, widget("w"))
    one = await http("GET", f"{WIDGETS}/w", accept=TABLE)
    assert (one.json["kind"], one.json["rows"][0]["cells"][0]) == ("Table", "w")
    path = f"{WIDGETS}?limit=1&includeObject=None"
    await http("POST", WIDGETS, widget("x"))
    listed = (await http("GET", path, accept=TABLE)).json
    assert listed["rows"][0]["object"] is None
    assert listed["metadata"]["remainingItemCount"] == 1
    assert listed["metadata"]["continue"]


async def test_metadata_only(http: Http) -> None:
    """What garbage collectors ask for."""
    await http("POST", WIDGETS, widget("w"))
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    one = await http("GET", f"{WIDGETS}/w", accept=accept)
    assert one.json["kind"] == "PartialObjectMetadata"
    assert "spec" not in one.json
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    listed = await http("GET", WIDGETS, accept=accept)
    assert listed.json["kind"] == "PartialObjectMetadataList"
    assert [i["metadata"]["name"] for i in listed.json["items"]] == ["w"]


async def test_answers_in_yaml(http: Http) -> None:
    """One object and lists, without anchors."""
    created = await http("POST", WIDGETS, widget("w"))
    one = await http("GET", f"{WIDGETS}/w", accept="application/yaml")
    assert one.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(one.body) == created.json
    listed = await http("GET", WIDGETS, accept="application/yaml")
    assert yaml.safe_load(listed.body)["items"] == [created.json]
    assert b"&id" not in listed.body


async def test_a_form_that_is_not_served(http: Http) -> None:
    """406."""
    answer = await http("GET", WIDGETS, accept="text/html")
    assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")


async def test_events_of_the_other_group(http: Http) -> None:
    """Stored once, seen as both kinds."""
    event: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "message": "said",
    }
    assert (await http("POST", f"{DEFAULT}/events", event)).status == 201
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    listed = await http("GET", path)
    assert listed.json["items"][0]["note"] == "said"
    assert (await http("GET", f"{path}/e")).json["apiVersion"] == "events.k8s.io/v1"
    async with http.watching(f"{path}?watch=1") as following:
        assert (await following())["object"]["note"] == "said"


async def test_versions_in_get_and_list(http: Http) -> None:
    """0 is any; the future is 504 with advice to try again."""
    await http("POST", WIDGETS, widget("w"))
    assert (await http("GET", f"{WIDGETS}/w?resourceVersion=0")).status == 200
    answer = await http("GET", f"{WIDGETS}/w?resourceVersion=999999999999999")
    assert answer.status == 504
    assert answer.headers["Retry-After"] == "1"
