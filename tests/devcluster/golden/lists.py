"""Lists and their parameters, and the forms of an answer."""

from __future__ import annotations

from tests.devcluster.golden.steps import PARTIAL, TABLE, WIDGETS, A, Step, get

__all__ = ["STEPS"]

STEPS: tuple[Step, ...] = (
    get("first page", WIDGETS, query={"limit": "1"}, saves={"more": "metadata.continue"}),
    get("next page", WIDGETS, query={"limit": "1", "continue": "$more"}),
    get("bad continue", WIDGETS, query={"limit": "1", "continue": "zzz"}),
    get("continue that is no base64", WIDGETS, query={"continue": "!"}),
    get(
        "continue with a version",
        WIDGETS,
        query={"limit": "1", "continue": "$more", "resourceVersion": "$rv"},
    ),
    get("bad limit", WIDGETS, query={"limit": "x"}),
    get("selector", WIDGETS, query={"labelSelector": "a in (b,c),!d"}),
    get("bad selector", WIDGETS, query={"labelSelector": "a===b"}),
    get("bad selector: set not closed", WIDGETS, query={"labelSelector": "a in (b"}),
    get("bad selector: key", WIDGETS, query={"labelSelector": "a_=b"}),
    get("bad selector: value", WIDGETS, query={"labelSelector": "a=b c"}),
    get("bad field selector", WIDGETS, query={"fieldSelector": "metadata.name"}),
    get("field selector by name", WIDGETS, query={"fieldSelector": "metadata.name=a"}),
    get("unsupported field selector", WIDGETS, query={"fieldSelector": "spec.size=1"}),
    get(
        "unsupported field selector of pods", "/api/v1/pods", query={"fieldSelector": "spec.foo=1"}
    ),
    get("list at a future version", WIDGETS, query={"resourceVersion": "$future", "limit": "1"}),
    get("list at a bad version", WIDGETS, query={"resourceVersion": "abc"}),
    get(
        "list with an odd match",
        WIDGETS,
        query={"resourceVersion": "1", "resourceVersionMatch": "Foo"},
    ),
    get("list with a match of nothing", WIDGETS, query={"resourceVersionMatch": "Exact"}),
    get(
        "list at version zero, exactly",
        WIDGETS,
        query={"resourceVersion": "0", "resourceVersionMatch": "Exact"},
    ),
    get(
        "list as it was", WIDGETS, query={"resourceVersion": "$rv", "resourceVersionMatch": "Exact"}
    ),
    get("get at version zero", A, query={"resourceVersion": "0"}),
    get("get at a bad version", A, query={"resourceVersion": "abc"}),
    get("table of one", A, accept=TABLE),
    get("metadata only", WIDGETS, accept=PARTIAL),
    get(
        "table without objects",
        WIDGETS,
        query={"limit": "1", "includeObject": "None"},
        accept=TABLE,
    ),
    get("yaml answer", A, accept="application/yaml"),
    get("unknown answer", WIDGETS, accept="image/png"),
    get(
        "protobuf answer of a custom resource",
        WIDGETS,
        accept="application/vnd.kubernetes.protobuf",
    ),
)
