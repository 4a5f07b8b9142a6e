"""The informers of GM: what they ask for, and what they leave alone."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

from gm.api.resources import PODS, SERVICES
from gm.controllers.informers import Informers
from gm.kube.client import Client
from tests.cluster.cluster import Cluster
from tests.controllers.conftest import Site
from tests.controllers.support import template


async def test_pods_and_services_are_asked_for_with_a_selector_P1_086(cluster: Cluster) -> None:
    """Lists and watches alike, and all lists in pages of 500."""
    asked: list[tuple[str, dict[str, list[str]]]] = []

    def note(method: str, target: str, status: int) -> None:
        del method, status
        url = urlsplit(target)
        asked.append((url.path.rpartition("/")[2], parse_qs(url.query)))

    async with await Client.connect(kubeconfig=cluster.kubeconfig, observe=note) as client:
        informers = Informers.make(client, namespace=cluster.namespace)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(informers.run())
            count = len(list(informers.all()))
            await cluster.wait_for(lambda: len([q for _, q in asked if "watch" in q]) == count)
            task.cancel()
    children = [query for plural, query in asked if plural in ("pods", "services")]
    assert len(children) == 8  # pods of three kinds and Services of one: list and watch
    assert all(query["labelSelector"][0].endswith(".sedna.io/uid") for query in children)
    assert all(query["limit"] == ["500"] for _, query in asked if "watch" not in query)


async def test_pods_of_others_never_reach_a_cache_P1_086(site: Site) -> None:
    """However many there are, and whatever happens to them."""
    await site.references()
    others = [f"foreign-{number}" for number in range(30)]
    for name in others:
        await site.create(PODS, {"metadata": {"name": name, "labels": {"app": "x"}}, **template()})
    port = {"spec": {"ports": [{"port": 1}]}}
    await site.create(SERVICES, {"metadata": {"name": "foreign"}, **port})
    async with site.gm() as manager:
        pods = await site.run_job()
        for name in others[:5]:
            await site.cluster.set_pod_status(name, phase="Running")
        await site.delete(PODS, others[0], grace_period_seconds=0)
        await site.run_job("other")
        informers: Informers = manager._informers  # type: ignore[assignment]
        known = {key.name for key in informers.federated_pods.lister}
        assert known == {*pods, *await site.pods("other")}
        assert {key.name for key in informers.federated_services.lister} == {
            "job-aggregation",
            "other-aggregation",
        }
        assert len(informers.inference_pods.lister) == len(informers.incremental_pods.lister) == 0
