"""Discovery and OpenAPI over HTTP."""

from __future__ import annotations

from tests.devcluster.core import Http, crd

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_legacy_discovery(http: Http) -> None:
    """Each document at its path."""
    assert (await http("GET", "/api")).json["versions"] == ["v1"]
    core = (await http("GET", "/api/v1")).json
    assert (core["kind"], core["groupVersion"]) == ("APIResourceList", "v1")
    groups = [g["name"] for g in (await http("GET", "/apis")).json["groups"]]
    assert "example.com" in groups
    assert (await http("GET", "/apis/example.com")).json["kind"] == "APIGroup"
    resources = (await http("GET", "/apis/example.com/v1")).json["resources"]
    assert [r["name"] for r in resources] == ["widgets", "widgets/status"]
    for path in ("/apis/nope", "/apis/example.com/v9", "/api/v9"):
        assert (await http("GET", path)).status == 404


async def test_aggregated_discovery_can_be_kept(http: Http) -> None:
    """Its ETag saves sending it again, until something new is served."""
    first = await http("GET", "/apis", accept=AGGREGATED)
    assert first.headers["Content-Type"] == (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    assert first.headers["Vary"] == "Accept"
    kept = {"If-None-Match": first.headers["ETag"]}
    assert (await http("GET", "/apis", accept=AGGREGATED, headers=kept)).status == 304
    await http("POST", CRDS, crd("Gadget"))
    again = await http("GET", "/apis", accept=AGGREGATED, headers=kept)
    assert again.status == 200
    assert b"gadgets" in again.body


async def test_open_api_documents_are_immutable_under_their_hash(http: Http) -> None:
    """kubectl keeps them on disk; another hash leads to the right one."""
    index = (await http("GET", "/openapi/v3")).json["paths"]
    url = index["apis/example.com/v1"]["serverRelativeURL"]
    document = await http("GET", url)
    assert "com.example.v1.Widget" in document.json["components"]["schemas"]
    assert document.headers["Cache-Control"] == "public, immutable"
    assert "Expires" in document.headers
    path = url.partition("?")[0]
    assert (await http("GET", path)).headers["Cache-Control"] == "no-cache, private"
    moved = await http("GET", f"{path}?hash=old")
    assert (moved.status, moved.headers["Location"]) == (301, url)
    kept = {"If-None-Match": document.headers["ETag"]}
    assert (await http("GET", path, headers=kept)).status == 304
    assert (await http("GET", "/openapi/v3/apis/nope/v1")).status == 404


async def test_a_new_definition_is_published_at_once(http: Http) -> None:
    """In discovery and OpenAPI, before its create is answered."""
    before = (await http("GET", "/openapi/v3")).headers["ETag"]
    await http("POST", CRDS, crd("Gadget"))
    index = await http("GET", "/openapi/v3")
    assert index.headers["ETag"] != before
    document = await http("GET", index.json["paths"]["apis/example.com/v1"]["serverRelativeURL"])
    assert "com.example.v1.Gadget" in document.json["components"]["schemas"]
