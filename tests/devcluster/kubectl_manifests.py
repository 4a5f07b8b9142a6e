"""What the kubectl tests apply. ``%(ns)s`` is the test's namespace."""

from __future__ import annotations

__all__ = [
    "BAD_DATASET",
    "CHANGED_DATASET",
    "CRD",
    "DATASET",
    "DEPLOYMENT",
    "EVENT",
    "GENERATED",
    "INVALID_DATASET",
    "LIST",
    "NODE",
    "POD",
    "SERVICE",
    "WIDGET",
]

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
LIST = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: l1}, data: {a: b}}
- {apiVersion: v1, kind: Service, metadata: {name: l2}, spec: {ports: [{port: 80}]}}
"""
GENERATED = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: g-}}"
NODE = """
apiVersion: v1
kind: Node
metadata: {name: "n-%(ns)s", labels: {kubernetes.io/hostname: h}}
spec: {taints: [{key: only-for-this-test, effect: NoSchedule}]}  # the server is shared
"""
