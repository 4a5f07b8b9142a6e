"""Lists: pages, versions and selectors."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.devcluster.listing import ListOptions, Page, list_page
from gm.devcluster.status import StatusError
from tests.devcluster.core import Plain, plain, widget

WIDGETS = "widgets.example.com"


def _page(api: Plain, namespace: str = "", **query: str) -> Page:
    info = api.info(WIDGETS)
    query = {key.rstrip("_"): value for key, value in query.items()}
    return list_page(api.store, info, ListOptions.parse(info, namespace, query))


def _names(page: Page) -> list[str]:
    return [record.key.name for record in page.records]


def _filled(count: int) -> Plain:
    api = plain()
    for n in range(count):
        api.create(WIDGETS, widget(f"w{n:02}", size=n + 1, labels={"odd": str(n % 2)}))
    return api


@settings(max_examples=20)
@given(st.integers(0, 12), st.integers(1, 5))
def test_pages_together_are_the_whole_list(count: int, limit: int) -> None:
    """Each object once, in order, whatever the limit."""
    api = _filled(count)
    whole = _names(_page(api))
    collected: list[str] = []
    token = ""
    while True:
        page = _page(api, limit=str(limit), **({"continue": token} if token else {}))
        collected += _names(page)
        left = count - len(collected)
        assert page.remaining == (left or None)
        token = page.token
        if not token:
            break
    assert collected == whole


def test_pages_show_the_state_of_the_first_one() -> None:
    """What changes between two requests is not seen, so a paged list is consistent."""
    api = _filled(4)
    first = _page(api, limit="2")
    info = api.info(WIDGETS)
    api.api.remove(info, api.key(WIDGETS, "w03"))
    api.create(WIDGETS, widget("w02b"))
    second = _page(api, limit="2", **{"continue": first.token})
    assert _names(second) == ["w02", "w03"]
    assert second.revision == first.revision
    assert _names(_page(api)) == ["w00", "w01", "w02", "w02b"]


def test_a_page_of_long_ago_is_410() -> None:
    """The client lists again, or goes on with the list as it is now."""
    api = _filled(3)
    first = _page(api, limit="1")
    for n in range(2100):
        api.patch(WIDGETS, "w00", lambda w, n=n: {**w, "spec": {"size": n + 1}})  # type: ignore[misc]
    with pytest.raises(StatusError, match="continue parameter is too old") as caught:
        _page(api, limit="1", **{"continue": first.token})
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert caught.value.body()["metadata"]["continue"] == caught.value.token
    rest = _page(api, limit="1", **{"continue": caught.value.token})
    assert (_names(rest), rest.revision) == (["w01"], api.store.revision)


def _token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"v":"meta.k8s.io/v2","rv":1,"start":"a"}', "this encoded version meta.k8s.io/v2"),
        ("{}", "server does not recognize this encoded version "),
        ("null", "server does not recognize this encoded version "),
        ("[]", "json: cannot unmarshal array into Go value of type storage.continueToken"),
        ('{"v":"meta.k8s.io/v1","start":"a"}', "encoded start resourceVersion (version meta."),
        ('{"v":"meta.k8s.io/v1","rv":1}', "encoded start key empty (version meta.k8s.io/v1)"),
        ('{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}', "continue key is not valid: ../a"),
        ('{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}', "continue key is not valid: a//b"),
        ('{"v":1}', "continue key is not valid: "),
        ("x", "invalid character 'x' looking for beginning of value"),
    ],
)
def test_tokens_that_are_damaged_are_400(text: str, why: str) -> None:
    """With what is wrong."""
    with pytest.raises(StatusError) as caught:
        _page(_filled(1), **{"continue": _token(text)})
    assert caught.value.code == 400
    assert caught.value.message.startswith("invalid continue token: continue key is not valid: ")
    assert why in caught.value.message


def test_namespaces_and_selectors() -> None:
    """With a selector nobody knows how many remain."""
    api = _filled(4)
    api.create(WIDGETS, widget("other"), namespace="kube-system")
    assert _names(_page(api, "kube-system")) == ["other"]
    assert _names(_page(api, "default", labelSelector="odd=1")) == ["w01", "w03"]
    assert _names(_page(api, fieldSelector="metadata.namespace=kube-system")) == ["other"]
    page = _page(api, labelSelector="odd=1", limit="1")
    assert (_names(page), page.remaining) == (["w01"], None)
    assert page.token
    assert page.metadata.keys() == {"resourceVersion", "continue"}


def test_an_exact_version_is_the_state_back_then() -> None:
    """As long as it is known."""
    api = _filled(2)
    then = str(api.store.revision)
    api.create(WIDGETS, widget("new"))
    page = _page(api, resourceVersion=then, resourceVersionMatch="Exact")
    assert (_names(page), str(page.revision)) == (["w00", "w01"], then)
    newest = _page(api, resourceVersion=then, resourceVersionMatch="NotOlderThan")
    assert len(newest.records) == 3
    with pytest.raises(StatusError, match="The resourceVersion for the provided list is too old"):
        _page(api, resourceVersion="1", resourceVersionMatch="Exact")


def test_a_version_of_the_future() -> None:
    """504 with the cause that clients look for."""
    api = _filled(1)
    with pytest.raises(StatusError, match="Too large resource version") as caught:
        _page(api, resourceVersion=str(api.store.revision + 1))
    assert caught.value.code == 504
    assert caught.value.causes[0].reason == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"continue": "zzz"}, 400, "invalid continue token: "),
        ({"continue": "!"}, 400, "invalid continue token: "),
        ({"resourceVersion": "x"}, 400, "invalid resource version: resourceVersion: Invalid"),
        ({"resourceVersionMatch": "Exact"}, 422, "ListOptions.meta.k8s.io "),
        ({"resourceVersionMatch": "Foo", "resourceVersion": "1"}, 422, "ListOptions.meta.k8s.io "),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, "ListOptions.meta.k8s."),
    ],
)
def test_what_can_not_be_listed(query: dict[str, str], code: int, message: str) -> None:
    """400 or 422."""
    api = _filled(0)
    with pytest.raises(StatusError) as caught:
        _page(api, **query)
    assert caught.value.code == code
    assert caught.value.message.startswith(message)


def test_a_negative_limit_is_none() -> None:
    """As upstream."""
    assert len(_page(_filled(3), limit="-1").records) == 3
