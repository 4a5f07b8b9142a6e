"""Real kubectl with kinds that have commands of their own, or are defined while it looks on."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.devcluster.kubectl_manifests import CRD, DATASET, DEPLOYMENT, NODE, WIDGET
from tests.devcluster.kubectl_steps import Step, walk
from tests.devcluster.support import Kubectl

CASES: dict[str, list[Step]] = {
    "deployments": [
        Step("apply -f -", stdin=DEPLOYMENT, out="created"),
        Step("scale deploy dep --replicas=2", out="^deployment.apps/dep scaled$"),
        Step("get deploy dep -o 'jsonpath={.spec.replicas} {.metadata.generation}'", out="^2 2$"),
        Step("scale deploy dep --current-replicas=9 --replicas=1", code=1, err="be 9, was 2"),
        Step("get deploy dep --subresource=scale", out=r"^dep +2 +0 +\d+s$"),
        Step("set image deploy/dep main=example.com/x:v2", out="image updated$"),
        Step("set env deploy/dep A=B", out="env updated$"),
        Step("set env deploy/dep --list", out="^A=B$"),
        Step("rollout pause deploy/dep", out="paused$"),
        Step("rollout resume deploy/dep", out="resumed$"),
        Step("rollout restart deploy/dep", out="restarted$"),
        Step("rollout status deploy/dep --timeout=1s", code=1, out="Waiting for deployment"),
        Step("rollout status deploy/absent", code=1, err="NotFound"),
        Step("expose deploy dep --port=80", out="^service/dep exposed$"),
        Step("scale dataset absent --replicas=2", code=1, err="not found"),
        Step("apply -f -", stdin=DATASET, out="created"),
        Step("scale dataset d1 --replicas=2", code=1, err="NotFound"),
        Step("delete deploy dep --cascade=orphan --wait=false", out="deleted"),
    ],
    "nodes": [
        Step("create -f -", stdin=NODE, out="^node/n-%(ns)s created$"),
        Step("get node n-%(ns)s", out=r"^n-%(ns)s +NotReady|^n-%(ns)s +Unknown|^n-%(ns)s +Ready"),
        Step("cordon n-%(ns)s", out="cordoned$"),
        Step("get node n-%(ns)s", out="SchedulingDisabled"),
        Step("uncordon n-%(ns)s", out="uncordoned$"),
        Step("taint node n-%(ns)s k=v:NoSchedule", out="tainted$"),
        Step("taint node n-%(ns)s k=v:NoSchedule", code=1, err="already has k taint"),
        Step("taint node n-%(ns)s k-", out="untainted$"),
        Step("label node n-%(ns)s node-role.kubernetes.io/edge=", out="labeled$"),
        Step("get node n-%(ns)s --no-headers", out=r" edge "),
        Step(
            "patch node n-%(ns)s --subresource=status --type=merge "
            """-p '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'""",
            out="patched$",
        ),
        Step("describe node n-%(ns)s", out="(?s)Taints: .*Non-terminated Pods"),
        Step("drain n-%(ns)s --force", out="drained$"),
        Step("delete node n-%(ns)s", out="deleted"),
    ],
    "custom resource definition": [
        Step("apply -f -", stdin=CRD, out="^customresourcedefinition.*widgets.* created$"),
        Step("wait --for=condition=Established crd/widgets.%(ns)s.example.com --timeout=20s"),
        Step("apply -f -", stdin=WIDGET, out="^widget.%(ns)s.example.com/w1 created$"),
        Step("get wd", out=r"^NAME +SIZE +PHASE\nw1 +3 +\n$"),
        Step("get wd -o wide", out=r"SIZE +PHASE +COLOUR\nw1 +3 +red\n"),
        Step("get widget w1 -o 'jsonpath={.spec.colour}'", out="^red$"),
        Step("explain widget.spec.size", out=r"(?s)FIELD: size <integer>.*how big"),
        Step(
            "apply -f -", stdin=WIDGET.replace("3", "0"), code=1, err="greater than or equal to 1"
        ),
        Step("apply -f -", stdin=CRD.replace("default: red", "default: blue"), out="configured"),
        Step("delete crd widgets.%(ns)s.example.com", out="deleted"),
        Step("get wd", code=1, err="doesn't have a resource type|could not find the requested"),
    ],
}


@pytest.mark.parametrize("case", CASES)
async def test_kubectl_does_what_it_does_in_a_real_cluster(
    cluster: Cluster, kubectl: Kubectl, case: str
) -> None:
    """Every command of the table ends and prints as expected, on both servers."""
    await walk(cluster, kubectl, CASES[case])
