"""What an informer logs about itself."""

from __future__ import annotations

import logging

import pytest

from tests.fakes.kube_api import FakeKubeApi
from tests.kube.following import following, listed


@pytest.mark.parametrize("selector", ["", "app=gm"])
async def test_informers_of_one_kind_are_told_apart_by_their_selectors(
    api: FakeKubeApi, caplog: pytest.LogCaptureFixture, selector: str
) -> None:
    """GM has several of pods; one without a selector has no such field."""
    caplog.set_level(logging.INFO, "gm.kube.informer")
    api.answers = [listed(10), None]
    async with following(api, label_selector=selector) as (informer, _):
        await informer.wait_synced()
        stream = await api.next_watch()
        stream.end()
    (record,) = [r for r in caplog.records if r.message == "informer synced"]
    assert record.__dict__["kind"] == "pods"
    assert record.__dict__.get("selector", "") == selector
