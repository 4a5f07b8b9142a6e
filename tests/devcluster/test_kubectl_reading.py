"""Real kubectl reads: the same commands to the embedded API server and to a real one."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.devcluster.kubectl_manifests import DATASET, DEPLOYMENT, POD, SERVICE
from tests.devcluster.kubectl_steps import Step, walk
from tests.devcluster.support import Kubectl

CASES: dict[str, list[Step]] = {
    "version": [
        Step("version", out=r"^Server Version: v1\.\d+\.\d+"),
        Step("version -o json", out=r'"serverVersion"'),
        Step("cluster-info", out="is running at"),
        Step("get --raw /healthz", out="^ok$"),
        Step("get --raw '/readyz?verbose'", out=r"^\[\+\]ping ok\n(?s:.*)^readyz check passed$"),
        Step("get --raw /livez/ping", out="^ok$"),
    ],
    "api-resources": [
        Step("api-resources", out=r"^datasets +dset +sedna.io/v1alpha1 +true +Dataset$"),
        Step("api-resources", out=r"^pods +po +v1 +true +Pod$"),
        Step("api-resources --namespaced=false -o name", out=r"^nodes$"),
        Step("api-resources --categories=sedna -o name", out=r"^datasets\.sedna\.io$"),
        Step("api-versions", out=r"^apiextensions\.k8s\.io/v1$"),
        Step("api-resources --verbs=list,get -o name", out=r"^pods$"),
        Step("get --raw /apis/sedna.io/v1alpha1", out='"kind":"APIResourceList"'),
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
        Step("get all", out=r"^pod/p1 +0/2"),
        Step("get pods -L app --chunk-size=1 --no-headers", out="demo$"),
        Step("get pods -o go-template='{{range .items}}{{.metadata.name}}{{end}}'", out="^p1$"),
        Step("get pod p1 --subresource=status -o 'jsonpath={.status.phase}'", out="^Pending$"),
        Step("get pod p1 --show-kind --show-managed-fields", out="^pod/p1 "),
        Step("get dataset absent --ignore-not-found", out="^$"),
        Step("get -f -", stdin=POD, out="^p1 "),
        Step("get pods -l 'a=='", err="No resources found"),
        Step("get pods -l 'a in b'", code=1, err="unable to parse requirement"),
        Step("get pods --field-selector spec.foo=1", code=1, err="field label not supported"),
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
        Step("get all,sa -l app!=none -o name", out="^service/web$"),
        Step("get namespaces", out=r"^default +Active"),
        Step("get leases -A"),
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
    "auth": [
        Step("auth can-i create federatedlearningjobs.sedna.io", out="^yes$"),
        Step("auth can-i --list", out=r"\*\.\* +\[\] +\[\] +\[\*\]"),
        Step("auth whoami", out=r"Username +admin"),
    ],
}


@pytest.mark.parametrize("case", CASES)
async def test_kubectl_reads_what_it_reads_from_a_real_cluster(
    cluster: Cluster, kubectl: Kubectl, case: str
) -> None:
    """Every command of the table ends and prints as expected, on both servers."""
    await walk(cluster, kubectl, CASES[case])
