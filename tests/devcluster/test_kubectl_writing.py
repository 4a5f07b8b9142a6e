"""Real kubectl writes: the same commands to the embedded API server and to a real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.devcluster.kubectl_manifests import (
    BAD_DATASET,
    CHANGED_DATASET,
    DATASET,
    GENERATED,
    INVALID_DATASET,
    LIST,
    POD,
    SERVICE,
)
from tests.devcluster.kubectl_steps import Step, walk
from tests.devcluster.support import Kubectl

ROOT = Path(__file__).parents[2]

CASES: dict[str, list[Step]] = {
    "apply": [
        Step("apply -f -", stdin=DATASET, out="^dataset.sedna.io/d1 created$"),
        Step("apply -f -", stdin=DATASET, out="^dataset.sedna.io/d1 unchanged$"),
        Step(
            "apply --dry-run=server -f -",
            stdin=CHANGED_DATASET,
            out=r"^dataset.sedna.io/d1 configured \(server dry run\)$",
        ),
        Step("get dataset d1", out="^d1 +edge1 .* txt "),
        Step("apply -f -", stdin=CHANGED_DATASET, out="^dataset.sedna.io/d1 configured$"),
        Step("get dset", out=r"^NAME +NODE +SAMPLES +FORMAT +AGE\nd1 +edge2 +txt +\d+s\n$"),
        Step("get dset d1 -o 'jsonpath={.metadata.generation}'", out="^2$"),
        Step(
            "apply -f -", stdin=BAD_DATASET, code=1, err='strict decoding error: unknown field "sp'
        ),
        Step(
            "apply --validate=warn -f -",
            stdin=BAD_DATASET,
            out="^dataset.sedna.io/d2 created$",
            err='Warning: unknown field "spec.colour"',
        ),
        Step(
            "apply -f -",
            stdin=INVALID_DATASET,
            code=1,
            err='The Dataset "d3" is invalid: spec.url: Invalid value: "integer": spec.url in '
            'body must be of type string: "integer"',
        ),
        Step("apply -f -", stdin=POD, out="created"),
        Step("apply -f -", stdin=POD, out="unchanged"),
        Step("apply -f -", stdin=POD.replace("x:v1", "x:v2"), out="^pod/p1 configured$"),
        Step("get pod p1 -o 'jsonpath={.spec.containers[*].image}'", out="x:v2 example.com/y:v1"),
        Step(
            "apply -f -", stdin=POD.replace("name: side", "name: other"), code=1, err="(?i)forbid"
        ),
        Step("apply -f -", stdin=SERVICE, out="created"),
        Step("apply -f -", stdin=SERVICE.replace("8080", "8081"), out="configured"),
        Step("get svc web -o 'jsonpath={.spec.ports[*].targetPort}'", out="^8081$"),
        Step("diff -f -", stdin=SERVICE.replace("8080", "8082"), code=1, out="(?m)^.*targetPort"),
        Step("diff -f -", stdin=SERVICE.replace("8080", "8081"), out="^$"),
        Step("apply view-last-applied svc web", out="8081"),
        Step("apply -f - --dry-run=client", stdin=SERVICE, out=r"configured \(dry run\)"),
        Step("apply -f -", stdin=LIST, out="created(?s:.*)created"),
        Step("apply -f -", stdin=LIST, out="unchanged(?s:.*)unchanged"),
        Step("delete -f - --ignore-not-found", stdin=LIST, out="deleted(?s:.*)deleted"),
        Step("apply --validate=false -f -", stdin=INVALID_DATASET, code=1, err="must be of type"),
    ],
    "create and delete": [
        Step("create -f -", stdin=POD, out="^pod/p1 created$"),
        Step("create -f -", stdin=POD, code=1, err=r'\(AlreadyExists\).*pods "p1" already exists'),
        Step("create -f - --dry-run=server", stdin=DATASET, out=r"created \(server dry run\)"),
        Step("get dataset d1", code=1, err="NotFound"),
        Step("delete pod p1 --wait", out='^pod "p1" deleted'),
        Step("delete pod p1", code=1, err="NotFound"),
        Step("delete pod p1 --ignore-not-found"),
        Step("create -f -", stdin=DATASET, out="created"),
        Step("delete -f -", stdin=DATASET, out='dataset.sedna.io "d1" deleted'),
        Step("create -f -", stdin=DATASET, out="created"),
        Step("delete datasets -l app=demo", out='"d1" deleted'),
        Step("create -f -", stdin=DATASET, out="created"),
        Step("delete datasets --all", out='"d1" deleted'),
        Step(
            "create -f -",
            stdin="apiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: {}\n",
            code=1,
            err="spec.containers: Required value",
        ),
        Step("replace -f -", stdin=DATASET, code=1, err="NotFound"),
        Step("create -f -", stdin=DATASET, out="created"),
        Step("replace -f -", stdin=CHANGED_DATASET, out="replaced"),
        Step("replace --force -f -", stdin=DATASET, out="replaced"),
        Step("delete dataset d1 --dry-run=server", out=r"deleted .*\(server dry run\)|deleted"),
        Step("delete dataset d1 --cascade=background", out="deleted"),
        Step("create -f -", stdin=POD, out="created"),
        Step("delete pod p1 --now", out="deleted"),
        Step("create -f -", stdin=POD, out="created"),
        Step("delete pod p1 --grace-period=0 --force", out="deleted", err="Immediate deletion"),
        Step("delete --raw /api/v1/namespaces/%(ns)s/pods/p1", code=1, err="NotFound"),
    ],
    "create without a file": [
        Step("create configmap c --from-literal=a=b --from-literal=c=d", out="created"),
        Step("get cm c -o 'jsonpath={.data}'", out=r'\{"a":"b","c":"d"\}'),
        Step("create secret generic s --from-literal=user=me", out="^secret/s created$"),
        Step("get secret s -o 'jsonpath={.data.user} {.type}'", out="^bWU= Opaque$"),
        Step("get secret s", out=r"^s +Opaque +1 +\d+s$"),
        Step("create namespace %(ns)s-b", out="^namespace/%(ns)s-b created$"),
        Step("create namespace Bad_Name", code=1, err="RFC 1123 label"),
        Step("create configmap c", code=1, err='configmaps "c" already exists'),
        Step("create configmap d --dry-run=server", out=r"created \(server dry run\)"),
        Step("run r1 --image=x --restart=Never", out="^pod/r1 created$"),
        Step("get pod r1 -o 'jsonpath={.metadata.labels.run}'", out="^r1$"),
        Step("create serviceaccount sa1", out="^serviceaccount/sa1 created$"),
        Step(
            "create -f -", stdin=GENERATED, out="^configmap/g-[bcdfghjklmnpqrstvwxz2-9]{5} created$"
        ),
        Step("delete namespace %(ns)s-b --wait=false", out="deleted"),
        Step("create deployment d --image=x --dry-run=client -o yaml", out="kind: Deployment"),
    ],
    "patch": [
        Step("apply -f -", stdin=DATASET, out="created"),
        Step("""patch dataset d1 --type=merge -p '{"spec":{"nodeName":"e3"}}'""", out="patched$"),
        Step("""patch dataset d1 --type=merge -p '{"spec":{"nodeName":"e3"}}'""", out="no change"),
        Step(
            "patch dataset d1 --type=json "
            """-p '[{"op":"replace","path":"/spec/format","value":"csv"}]'""",
            out="patched$",
        ),
        Step("""patch dataset d1 -p '{"spec":{}}'""", code=1, err="415|media type|not supported"),
        Step("get dataset d1 -o 'jsonpath={.spec.nodeName} {.spec.format}'", out="^e3 csv$"),
        Step(
            "patch dataset d1 --subresource=status --type=merge "
            """-p '{"status":{"numberOfSamples":7}}'""",
            out="patched$",
        ),
        Step("get dataset d1", out="^d1 +e3 +7 +csv "),
        Step("get dataset d1 -o 'jsonpath={.metadata.generation}'", out="^3$"),
        Step("apply -f -", stdin=POD, out="created"),
        Step(
            """patch pod p1 -p '{"spec":{"containers":[{"name":"side","image":"z:1"}]}}'""",
            out="^pod/p1 patched$",
        ),
        Step("get pod p1 -o 'jsonpath={.spec.containers[*].image}'", out="^example.com/x:v1 z:1$"),
        Step(
            """patch pod p1 --type=merge -p '{"metadata":{"labels":{"app":null,"b":"c"}}}'""",
            out="patched$",
        ),
        Step("get pod p1 -o 'jsonpath={.metadata.labels}'", out=r'^\{"b":"c"\}$'),
        Step("""patch pod absent -p '{}'""", code=1, err="NotFound"),
        Step("set image pod/p1 side=z:2", out="image updated"),
        Step("get pod p1 -o 'jsonpath={.spec.containers[1].image}'", out="^z:2$"),
        Step(
            "patch pod p1 --type=json "
            """-p '[{"op":"remove","path":"/metadata/labels/absent"}]'""",
            code=1,
            err="the server rejected our request",
        ),
        Step(
            """patch dataset d1 --type=merge -p '{"spec":{"url":7}}'""", code=1, err="type string"
        ),
    ],
    "edit": [
        Step("apply -f -", stdin=DATASET, out="created"),
        Step("edit dataset d1", editor="s/txt/csv/", out="^dataset.sedna.io/d1 edited$"),
        Step("get dataset d1 -o 'jsonpath={.spec.format}'", out="^csv$"),
        Step("edit dataset d1", editor="s/csv/csv/", err="no changes made"),
        Step("edit dataset d1 -o json", editor="s/edge1/edge9/", out='"nodeName": "edge9"'),
        Step("get dataset d1 -o 'jsonpath={.spec.nodeName}'", out="^edge9$"),
        Step("apply -f -", stdin=POD, out="created"),
        Step("edit pod p1", editor="s/app: demo/app: other/", out="^pod/p1 edited$"),
        Step("get pod p1 -o 'jsonpath={.metadata.labels.app}'", out="^other$"),
        Step("edit dataset absent", code=1, err="NotFound"),
    ],
    "label and annotate": [
        Step("apply -f -", stdin=DATASET, out="created"),
        Step("label dataset d1 x=y", out="^dataset.sedna.io/d1 labeled$"),
        Step("label dataset d1 x=z", code=1, err="--overwrite is false"),
        Step("label dataset d1 x=z --overwrite", out="labeled$"),
        Step("get dataset -l x=z -o name", out="d1"),
        Step("label dataset d1 x-", out="unlabeled$"),
        Step("label dataset d1 'a b=c'", code=1),
        Step("annotate dataset d1 n=v", out="annotated$"),
        Step("annotate dataset d1 --list", out="^n=v$"),
        Step("label ns %(ns)s team=blue", out="labeled$"),
        Step("label datasets --all y=1", out="labeled$"),
        Step("label dataset d1 --list", out="^y=1$"),
        Step("annotate dataset d1 n-", out="annotated$"),
    ],
}


@pytest.mark.parametrize("case", CASES)
async def test_kubectl_writes_as_to_a_real_cluster(
    cluster: Cluster, kubectl: Kubectl, case: str
) -> None:
    """Every command of the table ends and prints as expected, on both servers."""
    await walk(cluster, kubectl, CASES[case])


async def test_the_crds_are_applied_twice_by_plain_kubectl_P1_088(kubectl: Kubectl) -> None:
    """They are small enough for the annotation that client-side apply keeps."""
    for word in ("created|configured|unchanged", "unchanged"):
        outcome = await kubectl.run(f"apply -f {ROOT}/deploy/crds")
        assert outcome.code == 0, outcome
        lines = outcome.out.splitlines()
        assert len(lines) == len([*(ROOT / "deploy/crds").glob("*.yaml")])
        assert all(re.search(rf"sedna\.io ({word})$", line) for line in lines), outcome
