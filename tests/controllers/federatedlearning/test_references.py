"""What a job refers to comes late or changes, against API servers."""

from __future__ import annotations

import base64
from typing import Any

from gm.api.resources import DATASETS, MODELS, NODES, SECRETS
from tests.controllers.conftest import Site
from tests.controllers.federatedlearning.objects import condition, uids, waiting_reason
from tests.controllers.support import env_of


async def test_a_job_waits_for_its_references_and_starts_by_itself_P1_071(site: Site) -> None:
    """Model, dataset and node: named, and nobody has to touch the job."""
    async with site.gm():
        await site.submit(trainers=1)
        status = await site.wait_status(lambda s: condition(s, "Waiting"), seconds=5)
        told = condition(status, "Waiting")
        assert told is not None
        assert told["reason"] == "ModelNotFound"
        assert status["phase"] == "Pending"
        await site.cluster.wait_for(lambda: site.events("ModelNotFound"))
        await site.model()
        await site.wait_status(lambda s: waiting_reason(s) == "DatasetNotFound", seconds=5)
        await site.dataset("d0", "edge0")
        await site.wait_status(lambda s: waiting_reason(s) == "NodeNotFound", seconds=5)
        await site.nodes("cloud", "edge0")
        await site.wait_status(lambda s: s.get("active") == 2, seconds=5)
        await site.wait_status(lambda s: not condition(s, "Waiting"))
        assert len(await site.events("ModelNotFound")) == 1
        pretrained = {"name": "base"}
        await site.submit("second", trainers=1, pretrainedModel=pretrained)
        status = await site.wait_status(lambda s: condition(s, "Waiting"), "second", seconds=5)
        assert "Model base" in (condition(status, "Waiting") or {})["message"]
        await site.model("base")
        await site.wait_status(lambda s: s.get("active") == 2, "second", seconds=5)


async def test_a_job_waits_for_a_secret_and_starts_by_itself_P1_071(site: Site) -> None:
    """Secrets are read one by one, each second; keys never appear in a pod's spec."""
    await site.nodes("cloud", "edge0")
    await site.model(url="s3://bucket/m", credentialName="s3")
    await site.dataset("d0", "edge0")
    async with site.gm():
        await site.submit(trainers=1)
        await site.wait_status(lambda s: waiting_reason(s) == "SecretNotFound")
        data = {
            k: base64.b64encode(b"AKIATEST").decode()
            for k in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
        }
        await site.create(SECRETS, {"metadata": {"name": "s3"}, "data": data})
        await site.wait_status(lambda s: waiting_reason(s) == "CredentialInvalid")
        endpoint = {"metadata": {"annotations": {"s3-endpoint": "store:9000"}}}
        await site.patch(SECRETS, "s3", endpoint)
        pods = await site.wait_pods(2)
    env = env_of(pods["job-train-0"])
    assert env["S3_ENDPOINT_URL"] == "https://store:9000"
    assert env["ACCESS_KEY_ID"]["secretKeyRef"]["name"] == "s3"
    assert "AKIATEST" not in str(pods)


async def test_changed_models_data_and_nodes_are_shown_and_leave_running_jobs_alone(
    site: Site,
) -> None:
    """One condition and one event; when all is as it was, the condition goes."""
    await site.references()

    def changes(status: dict[str, Any]) -> str:
        return str((condition(status, "ReferenceChanged") or {}).get("message", ""))

    async with site.gm():
        before = uids(await site.run_job())
        await site.patch(DATASETS, "d0", {"spec": {"url": "/elsewhere/train.txt"}})
        await site.wait_status(lambda s: "Dataset d0 has another url;" in changes(s))
        await site.delete(MODELS, "m")
        async with site.cluster.client() as client:
            await client.raw("DELETE", NODES.path(name=site.node("edge1")))
        told = "Model m was deleted, Dataset d0 has another url, Node "
        status = await site.wait_status(
            lambda s: told in changes(s) and f"Node {site.node('edge1')} was" in changes(s)
        )
        assert status["phase"] == "Running"
        await site.cluster.wait_for(lambda: site.events("ReferenceChanged"))
        await site.settled()
        pods = await site.pods()
        assert uids(pods) == before
        assert all("deletionTimestamp" not in p["metadata"] for p in pods.values())
        await site.model()
        await site.nodes("edge1")
        await site.patch(DATASETS, "d0", {"spec": {"url": "/data/train.txt"}})
        await site.wait_status(lambda s: not changes(s))
        assert uids(await site.pods()) == before
