"""Real kubectl follows: ``get -w``, ``wait``, ``logs -f``, events, a namespace's end."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.devcluster.kubectl_manifests import DATASET, EVENT, POD
from tests.devcluster.kubectl_steps import Step, walk
from tests.devcluster.support import Kubectl, Outcome, serving_kubelet


async def lines_until(
    stream: asyncio.StreamReader | None, wanted: Callable[[str], bool]
) -> list[str]:
    """Lines of a stream up to the first that is wanted."""
    assert stream is not None
    seen: list[str] = []
    async with asyncio.timeout(40):
        while not seen or not wanted(seen[-1]):
            line = (await stream.readline()).decode()
            assert line, f"the stream ended after {seen}"
            seen.append(line)
    return seen


async def test_get_w_shows_every_change_as_a_row(kubectl: Kubectl) -> None:
    """`get -w` prints what is there, then a row for each change, with one header."""
    assert (await kubectl.run("create -f -", DATASET)).code == 0
    async with kubectl.started("get datasets -w") as watching:
        seen = await lines_until(watching.stdout, lambda line: line.startswith("d1"))
        assert seen[0].split() == ["NAME", "NODE", "SAMPLES", "FORMAT", "AGE"]
        await kubectl.run("""patch dataset d1 --type=merge -p '{"spec":{"format":"npz"}}'""")
        seen = await lines_until(watching.stdout, lambda line: "npz" in line)
        assert not any("NAME" in line for line in seen)


async def test_get_w_as_json_shows_whole_objects(kubectl: Kubectl) -> None:
    """`get -w -o json` of one object follows it to its deletion."""
    assert (await kubectl.run("create -f -", DATASET)).code == 0
    async with kubectl.started(
        "get dataset d1 -w --output-watch-events "
        "-o 'jsonpath={.type} {.object.spec.format}{\"\\n\"}'"
    ) as watching:
        assert await lines_until(watching.stdout, lambda line: True) == ["ADDED txt\n"]
        await kubectl.run("delete dataset d1 --wait=false")
        seen = await lines_until(watching.stdout, lambda line: "DELETED" in line)
        assert seen[-1] == "DELETED txt\n"


async def test_wait_says_what_holds_already(cluster: Cluster, kubectl: Kubectl) -> None:
    """`wait` for a field, a condition, an absence; and for what does not come in time."""
    await walk(
        cluster,
        kubectl,
        [
            Step("apply -f -", stdin=POD, out="created"),
            Step("wait --for=jsonpath='{.status.phase}'=Pending pod/p1 --timeout=20s", out="met"),
            Step("wait --for=condition=Ready pod/p1 --timeout=1s", code=1, err="timed out"),
            Step("wait --for=condition=Established crd/datasets.sedna.io --timeout=9s", out="met"),
            Step("wait --for=delete pod/absent --timeout=9s"),
        ],
    )


async def test_wait_for_create_ends_when_the_object_is_there(kubectl: Kubectl) -> None:
    """`wait --for=create` of what does not exist yet."""
    async with kubectl.started("wait --for=create dataset/d1 --timeout=40s") as waiting:
        assert (await kubectl.run("create -f -", DATASET)).code == 0
        assert await waiting.wait() == 0


async def test_watch_only_shows_changes_and_not_what_is_there(kubectl: Kubectl) -> None:
    """`get --watch-only` begins with the first change; as YAML it shows whole objects."""
    assert (await kubectl.run("create -f -", DATASET)).code == 0
    change = """patch dataset d1 --type=merge -p '{"metadata":{"labels":{"n":"%d"}}}'"""

    async def keep_changing() -> None:
        n = 0
        while True:  # the watch may begin after any of the changes
            n += 1
            await kubectl.run(change % n)

    async with (
        kubectl.started("get datasets --watch-only --show-labels") as rows,
        kubectl.started("get datasets --watch-only -o yaml") as objects,
    ):
        changing = asyncio.ensure_future(keep_changing())
        try:
            seen = await lines_until(rows.stdout, lambda line: line.startswith("d1"))
            assert [line.split()[0] for line in seen] == ["NAME", "d1"]
            assert "n=" in seen[-1]
            seen = await lines_until(objects.stdout, lambda line: line.startswith("spec:"))
            assert "kind: Dataset\n" in seen
        finally:
            changing.cancel()
            await asyncio.wait([changing])


async def test_wait_ends_when_the_condition_comes(cluster: Cluster, kubectl: Kubectl) -> None:
    """`wait` for a condition, for a field, and for an object's removal."""
    assert (await kubectl.run("create -f -", POD)).code == 0
    async with kubectl.started("wait --for=condition=Ready pod/p1 --timeout=40s") as waiting:
        await cluster.set_pod_status("p1", conditions=[{"type": "Ready", "status": "True"}])
        assert await waiting.wait() == 0
    async with kubectl.started("wait --for=delete pod/p1 --timeout=40s") as waiting:
        await kubectl.run("delete pod p1 --wait=false")
        assert await waiting.wait() == 0


async def test_events_are_seen_by_get_events_and_describe(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    """An event about a custom resource is found by each of the commands that show events."""
    await kubectl.run("create -f -", DATASET)
    uid = (await kubectl.run("get dataset d1 -o 'jsonpath={.metadata.uid}'")).out
    names = {"ns": cluster.namespace, "uid": uid}
    created = await kubectl.run("create -f -", EVENT % names)
    assert created.code == 0, created
    for command, pattern in {
        "get events": r"Normal +Counted +dataset/d1 +42 samples",
        "get events -o wide": r"dataset/d1 +gm +42 samples +\S+ +3 +d1\.1",
        "get events --field-selector involvedObject.name=d1,type!=Warning": "Counted",
        "get events.events.k8s.io": r"Normal +Counted +dataset/d1 +42 samples",
        "events": r"Normal +Counted +Dataset/d1 +42 samples",
        "events --for dataset/d1 --types=Normal": "42 samples",
        "describe dataset d1": r"Normal +Counted +\S+ \(x3 over \S+\) +gm +42 samples",
    }.items():
        outcome = await kubectl.run(command)
        assert outcome.code == 0, (command, outcome)
        assert re.search(pattern, outcome.out), (command, outcome)


async def test_logs_come_from_the_pods_node(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    """`logs` reads what the node serves, of the container that is asked for; `-f` follows it."""
    node = f"node-{cluster.namespace}"
    async with serving_kubelet(tmp_path) as kubelet:
        await kubectl.run("create -f -", node_manifest(node, kubelet.port))
        pod = POD.replace('nodeSelector: {sedna.io/nowhere: "true"}', f"nodeName: {node}")
        await kubectl.run("create -f -", pod)
        outcome = await kubectl.run("logs p1 -c side")
        assert outcome == Outcome(0, "side line 1\nside line 2\n", ""), outcome
        assert (await kubectl.run("logs p1 -c main --tail=1")).out == "main line 2\n"
        assert f"/containerLogs/{cluster.namespace}/p1/side" in kubelet.asked[0]
        async with kubectl.started("logs -f p1 -c main") as following:
            await lines_until(following.stdout, lambda line: line == "main line 2\n")
            kubelet.release.set()
            await lines_until(following.stdout, lambda line: line == "the last line\n")
            assert await following.wait() == 0
        wrong = await kubectl.run("logs p1 -c nonsense")
        assert wrong.code == 1
        assert "container nonsense is not valid for pod p1" in wrong.err
        described = await kubectl.run(f"describe node {node}")
        assert re.search(r"InternalIP: +127\.0\.0\.1", described.out), described
        assert f"{cluster.namespace} " in described.out
        listed = await kubectl.run(f"get node {node} -o wide")
        assert re.search(rf"^{node} +Ready +edge +\S+ +v1 +127\.0\.0\.1", listed.out, re.MULTILINE)
        await kubectl.run("delete pod p1 --force --grace-period=0")
        await kubectl.run(f"delete node {node}")


def node_manifest(name: str, port: int) -> str:
    """A node that is ready, and whose kubelet listens on ``port`` of this machine."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"node-role.kubernetes.io/edge": ""}},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1"},
            },
        }
    )


async def test_a_namespace_goes_with_all_that_is_in_it(cluster: Cluster, kubectl: Kubectl) -> None:
    """`delete ns` waits until namespace and content are gone."""
    await cluster.start_controllers()
    other = await cluster.create_namespace()
    assert (await kubectl.run(f"create -f - -n {other}", DATASET)).code == 0
    outcome = await kubectl.run(f"delete ns {other}")
    assert outcome.code == 0, outcome
    assert (await kubectl.run(f"get ns {other}")).code == 1
