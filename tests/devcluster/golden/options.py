"""Parameters of reads and writes, and the forms of answer that a client may ask for."""

from __future__ import annotations

from typing import Any

from tests.devcluster.golden.objects import core
from tests.devcluster.golden.steps import CORE, PARTIAL, TABLE, Step, get, patch, post

__all__ = ["STEPS"]

MAPS = f"{CORE}/configmaps"
EVENTS = "/apis/events.k8s.io/v1/namespaces/$ns/events"
LISTS: tuple[dict[str, str], ...] = (
    {"limit": "-1"},
    {"timeoutSeconds": "abc"},
    {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"},
    {"resourceVersionMatch": "NotOlderThan"},
    {"resourceVersion": "-1"},
    {"resourceVersion": "1.5"},
    {"sendInitialEvents": "true"},
    {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"},
    {"sendInitialEvents": "maybe"},
    {"limit": "1", "continue": "abc", "resourceVersionMatch": "Exact", "resourceVersion": "1"},
)
WATCHES: tuple[dict[str, str], ...] = (
    {"timeoutSeconds": "abc"},
    {"continue": "abc"},
    {"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"},
    {"sendInitialEvents": "false"},
    {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
    {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "limit": "1"},
    {"fieldSelector": "spec.foo=1"},
)
SELECTORS = (
    "in",
    "in=a",
    "in in (a)",
    "a in ()",
    "a in (,)",
    "a in (b,,c)",
    "a notin (b)",
    "!a",
    "! a",
    "!a=b",
    "a==b",
    "a!=b",
    "a=b,",
    ",a=b",
    "a>5",
    "a>x",
    "a<",
    "a=",
    "a='b'",
    'a="b"',
    "(a)",
    "a b",
    "a/b/c=d",
    "-a=b",
)
FIELDS = (
    "metadata.name==c1",
    "metadata.name!=c1",
    "metadata.name=c1,metadata.namespace=$ns",
    "metadata.name=c1,metadata.name=c2",
    "metadata.uid=x",
    "a=b=c",
    r"metadata.name=a\,b",
    r"metadata.name=a\b",
    "=x",
    "metadata.namespace=elsewhere",
)
EVENT_FIELDS = (
    "regarding.name=a",
    "reason=R",
    "reportingController=c",
    "type=Normal",
    "involvedObject.name=a",
)
ANSWERS: tuple[str, ...] = (
    "*/*",
    "application/*",
    "text/html",
    "application/json;q=0.1,application/yaml",
    "application/json;q=0",
    "image/png,application/json;q=0.5",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/json;as=Table;v=v7;g=meta.k8s.io",
    "application/json;as=Table;v=v1;g=other.io",
    "application/json;as=Foo;v=v1;g=meta.k8s.io",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io",
    "application/json;stream=watch",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;charset=utf-8",
    "",
)


def written(**query: str) -> dict[str, str]:
    """The query of a write that is not carried out."""
    return {"dryRun": "All", **query}


def short(body: Any) -> Any:
    """Picks what an answer is: its kind, whom it shows, and why it is none."""
    if not isinstance(body, dict) or body.get("kind") == "Status":
        return body
    items = body.get("items") or body.get("rows") or ()
    names = [
        (i.get("metadata") or i.get("object", {}).get("metadata", {})).get("name") for i in items
    ]
    return {"kind": body["kind"], "apiVersion": body["apiVersion"], "names": names}


STEPS: tuple[Step, ...] = (
    post("c1", MAPS, {**core("ConfigMap", "c1"), "metadata": {"name": "c1", "labels": {"a": "b"}}}),
    post(
        "c2", MAPS, {**core("ConfigMap", "c2"), "metadata": {"name": "c2", "labels": {"in": "a"}}}
    ),
    *(get(f"list with {query}", MAPS, query=query, pick=short) for query in LISTS),
    *(
        get(f"watch with {query}", MAPS, query={"watch": "1", "timeoutSeconds": "1", **query})
        for query in WATCHES
    ),
    *(
        get(f"labels: {text}", MAPS, query={"labelSelector": text}, pick=short)
        for text in SELECTORS
    ),
    *(get(f"fields: {text}", MAPS, query={"fieldSelector": text}, pick=short) for text in FIELDS),
    *(
        get(f"fields of events: {text}", EVENTS, query={"fieldSelector": text}, pick=short)
        for text in EVENT_FIELDS
    ),
    *(get(f"as {text!r}", MAPS, accept=text, pick=short) for text in ANSWERS),
    *(get(f"one as {text!r}", f"{MAPS}/c1", accept=text, pick=short) for text in ANSWERS),
    get("one as a list of metadata", f"{MAPS}/c1", accept=PARTIAL.partition(",")[0]),
    *(
        get(
            f"a table with {include!r}",
            f"{MAPS}/c1",
            query={"includeObject": include},
            accept=TABLE.partition(",")[0],
            pick=lambda body: body.get("rows") or body,
        )
        for include in ("Object", "None", "Metadata", "Foo", "")
    ),
    get(
        "watch as yaml",
        MAPS,
        query={"watch": "1", "timeoutSeconds": "1"},
        accept="application/yaml",
    ),
    Step("head", "HEAD", MAPS),
    *(
        post(f"a write with {query}", MAPS, core("ConfigMap", "c3"), query=written(**query))
        for query in (
            {"fieldManager": "x" * 129},
            {"fieldManager": "a\tb"},
            {"fieldManager": "me"},
            {"pretty": "true"},
            {"dryRun": "true"},
        )
    ),
    *(
        patch(f"a patch with {query}", f"{MAPS}/c1", {"data": {"k": "v"}}, query=written(**query))
        for query in (
            {"fieldManager": "x" * 129},
            {"force": "true"},
            {"force": "false"},
            {"fieldManager": ""},
        )
    ),
    *(
        post(
            f"a write of {kind!r}",
            MAPS,
            core("ConfigMap", "c3"),
            query=written(),
            content_type=kind,
        )
        for kind in ("application/json; charset=utf-8", "text/json", "application/cbor", "*/*")
    ),
)
