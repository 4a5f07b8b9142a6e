"""Real kubectl, command by command, against the embedded API server and a real one."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.devcluster.support import Kubectl, Outcome, serving_kubelet

ROOT = Path(__file__).parents[2]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p1, labels: {app: demo}}
spec:
  nodeSelector: {sedna.io/nowhere: "true"}
  containers:
  - {name: main, image: "example.com/x:v1", env: [{name: A, value: b}]}
  - {name: side, image: "example.com/y:v1"}
"""
DATASET = """
apiVersion: sedna.io/v1alpha1
kind: Dataset
metadata: {name: d1, labels: {app: demo}}
spec: {url: /data/train.txt, format: txt, nodeName: edge1}
"""
CHANGED_DATASET = DATASET.replace("edge1", "edge2")
BAD_DATASET = """
apiVersion: sedna.io/v1alpha1
kind: Dataset
metadata: {name: d2}
spec: {url: /data/train.txt, format: txt, nodeName: edge1, colour: red}
"""
INVALID_DATASET = """
apiVersion: sedna.io/v1alpha1
kind: Dataset
metadata: {name: d3}
spec: {url: 7, format: txt, nodeName: edge1}
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: demo}
  ports: [{port: 80, targetPort: 8080}]
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: dep}
spec:
  replicas: 0
  selector: {matchLabels: {app: dep}}
  template:
    metadata: {labels: {app: dep}}
    spec: {containers: [{name: main, image: "example.com/x:v1"}]}
"""
EVENT = """
apiVersion: v1
kind: Event
metadata: {name: d1.1}
involvedObject:
  apiVersion: sedna.io/v1alpha1
  kind: Dataset
  name: d1
  namespace: "%(ns)s"
  uid: "%(uid)s"
reason: Counted
message: 42 samples
type: Normal
count: 3
source: {component: gm}
firstTimestamp: "2024-01-01T00:00:00Z"
lastTimestamp: "2024-01-01T00:00:00Z"
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.%(ns)s.example.com}
spec:
  group: "%(ns)s.example.com"
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Phase, type: string, jsonPath: .status.phase}
    - {name: Colour, type: string, jsonPath: .spec.colour, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: Widget is a thing.
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: how big}
              colour: {type: string, default: red}
          status:
            type: object
            properties:
              phase: {type: string}
"""
WIDGET = """
apiVersion: %(ns)s.example.com/v1
kind: Widget
metadata: {name: w1}
spec: {size: 3}
"""


@dataclass(frozen=True)
class Step:
    """One command and how it must end.

    ``out`` and ``err`` are regular expressions to be found in what is printed. In all texts
    ``%(ns)s`` is the test's namespace.
    """

    command: str
    out: str = ""
    err: str = ""
    stdin: str = ""
    code: int = 0


CASES: dict[str, list[Step]] = {
    "version": [
        Step("version", out=r"^Server Version: v1\.\d+\.\d+"),
        Step("version -o json", out=r'"serverVersion"'),
        Step("cluster-info", out="is running at"),
    ],
    "api-resources": [
        Step("api-resources", out=r"^datasets +dset +sedna.io/v1alpha1 +true +Dataset$"),
        Step("api-resources", out=r"^pods +po +v1 +true +Pod$"),
        Step("api-resources --namespaced=false -o name", out=r"^nodes$"),
        Step("api-resources --categories=sedna -o name", out=r"^datasets\.sedna\.io$"),
        Step("api-versions", out=r"^apiextensions\.k8s\.io/v1$"),
    ],
    "get": [
        Step("get pods", err="No resources found in %(ns)s namespace"),
        Step("apply -f -", stdin=POD, out="^pod/p1 created$"),
        Step("get pods", out=r"^NAME +READY +STATUS +RESTARTS +AGE\np1 +0/2 +Pending +0 +\d+s\n$"),
        Step("get pod p1 -o wide", out=r"IP +NODE +NOMINATED NODE +READINESS GATES\n.*<none>"),
        Step("get pod p1 -o yaml", out=r"(?s)^apiVersion: v1\nkind: Pod\n.*qosClass: BestEffort"),
        Step("get po p1 -o json", out=r'"terminationGracePeriodSeconds": 30'),
        Step("get pods -o name", out="^pod/p1\n$"),
        Step("get pods -o 'jsonpath={.items[*].spec.containers[1].name}'", out="^side$"),
        Step("get pods -o custom-columns=N:.metadata.name,P:.status.phase", out="^p1 +Pending$"),
        Step("get pods -l app=demo --show-labels", out="app=demo"),
        Step("get pods -l app!=demo", err="No resources found"),
        Step("get pods -l 'app in (demo,other),!absent' -o name", out="^pod/p1$"),
        Step("get pods --field-selector status.phase=Pending -o name", out="^pod/p1$"),
        Step("get pods --field-selector spec.nodeName=x", err="No resources found"),
        Step("get pods -A --field-selector metadata.namespace=%(ns)s", out=r"^%(ns)s +p1 +0/2"),
        Step("get pods,services -o name", out="^pod/p1$"),
        Step("get pods --sort-by=.metadata.name --no-headers", out="^p1 "),
        Step("get pod absent", code=1, err=r'Error from server \(NotFound\): pods "absent" not f'),
        Step("get nonsense", code=1, err="the server doesn't have a resource type"),
        Step("get ns %(ns)s", out=r"^%(ns)s +Active"),
        Step("get --raw /api/v1/namespaces/%(ns)s", out='"kind":"Namespace"'),
    ],
    "tables of other kinds": [
        Step("apply -f -", stdin=SERVICE, out="created"),
        Step("get svc", out=r"(?m)^web +NodePort +10\.\d+\.\d+\.\d+ +<none> +80:3\d{4}/TCP +\d+s$"),
        Step("get svc -o wide", out=r"app=demo\n"),
        Step("apply -f -", stdin=DEPLOYMENT, out="created"),
        Step("get deploy -o wide", out=r"^dep +0/0 +0 +0 +\d+s +main +example.com/x:v1 +app=dep$"),
        Step("create sa robot", out="created"),
        Step("get sa robot", out=r"^robot +(0 +)?\d+s$"),
        Step("get crd datasets.sedna.io", out=r"^datasets\.sedna\.io +20\d\d-"),
        Step("get leases,endpoints,pvc,hpa,rs,endpointslices", err=""),
    ],
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
    ],
    "describe": [
        Step("apply -f -", stdin=POD, out="created"),
        Step("describe pod p1", out=r"(?s)^Name: +p1\n.*Node-Selectors: +sedna.io/nowhere=true"),
        Step("apply -f -", stdin=DATASET, out="created"),
        Step(
            "describe dataset d1", out=r"(?s)Kind: +Dataset\n.*Node Name: +edge1.*Events: +<none>"
        ),
        Step("apply -f -", stdin=SERVICE, out="created"),
        Step("describe svc web", out=r"(?s)Type: +NodePort.*TargetPort: +8080/TCP"),
        Step("apply -f -", stdin=DEPLOYMENT, out="created"),
        Step("describe deploy dep", out="StrategyType: +RollingUpdate"),
        Step("create secret generic s --from-literal=user=me", out="created"),
        Step("describe secret s", out=r"user: +2 bytes"),
        Step("describe ns %(ns)s", out="Status: +Active"),
        Step("describe crd datasets.sedna.io", out="Established"),
        Step("describe pod absent", code=1, err="NotFound"),
    ],
    "explain": [
        Step("explain pod.spec.containers.image", out=r"(?s)FIELD: image <string>.*image name"),
        Step("explain dataset", out=r"(?s)GROUP: +sedna.io\nKIND: +Dataset\nVERSION: +v1alpha1"),
        Step("explain dataset.spec.nodeName", out="FIELD: nodeName <string>"),
        Step("explain fl.spec --recursive", out="trainingWorkers"),
        Step("explain deployment.spec.replicas", out="FIELD: replicas <integer>"),
        Step("explain crd.spec.names", out="shortNames"),
        Step("explain nonsense", code=1, err="nonsense"),
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
    ],
    "wait": [
        Step("apply -f -", stdin=POD, out="created"),
        Step("wait --for=jsonpath='{.status.phase}'=Pending pod/p1 --timeout=20s", out="condition"),
        Step("wait --for=condition=Ready pod/p1 --timeout=1s", code=1, err="timed out"),
        Step(
            "wait --for=condition=Established crd/datasets.sedna.io --timeout=9s", out="condition"
        ),
        Step("wait --for=delete pod/absent --timeout=9s"),
    ],
    "auth": [
        Step("auth can-i create federatedlearningjobs.sedna.io", out="^yes$"),
        Step("auth can-i --list", out=r"\*\.\* +\[\] +\[\] +\[\*\]"),
        Step("auth whoami", out=r"Username +admin"),
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


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    """kubectl in the test's namespace, with a home directory that the test alone sees."""
    return Kubectl(cluster.kubeconfig, cluster.namespace, tmp_path)


def check(step: Step, outcome: Outcome, names: dict[str, str]) -> None:
    """A step must have ended as it says."""
    told = f"kubectl {step.command}\n--- stdout\n{outcome.out}\n--- stderr\n{outcome.err}"
    assert outcome.code == step.code, told
    for pattern, text in ((step.out, outcome.out), (step.err, outcome.err)):
        assert re.search(pattern % names, text, re.MULTILINE), f"no {pattern!r} in: {told}"


@pytest.mark.parametrize("case", CASES)
async def test_kubectl_does_what_it_does_against_a_real_cluster(
    cluster: Cluster, kubectl: Kubectl, case: str
) -> None:
    """Every command of the table ends and prints as expected, on both servers."""
    names = {"ns": cluster.namespace}
    for step in CASES[case]:
        outcome = await kubectl.run(step.command % names, step.stdin % names)
        check(step, outcome, names)


async def test_the_crds_are_applied_twice_by_plain_kubectl_P1_088(kubectl: Kubectl) -> None:
    """They are small enough for the annotation that client-side apply keeps."""
    for word in ("created|configured|unchanged", "unchanged"):
        outcome = await kubectl.run(f"apply -f {ROOT}/deploy/crds")
        assert outcome.code == 0, outcome
        lines = outcome.out.splitlines()
        assert len(lines) == len([*(ROOT / "deploy/crds").glob("*.yaml")])
        assert all(re.search(rf"sedna\.io ({word})$", line) for line in lines), outcome


OUT_OF_SCOPE = {
    "exec p1 -- ls": "exec is not supported by this API server",
    "attach p1": "attach is not supported by this API server",
    "port-forward pod/p1 8080:80": "pod is not running|not supported",
    "top pods": "Metrics API not available",
    "apply --server-side -f -": "server-side apply",
    "drain edge-of-nowhere": "not found",
    "debug p1 --image=x": "ephemeralcontainers|ephemeral containers",
    "create job j --image=x": "could not find the requested resource",
}


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
@pytest.mark.parametrize("command", OUT_OF_SCOPE)
async def test_what_is_out_of_scope_fails_with_a_clear_message(
    kubectl: Kubectl, command: str
) -> None:
    """A command that this server does not carry out says so, and exits non-zero."""
    assert (await kubectl.run("apply -f -", POD)).code == 0
    outcome = await kubectl.run(command, DATASET)
    assert outcome.code != 0, outcome
    assert re.search(OUT_OF_SCOPE[command], outcome.err), outcome.err


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
