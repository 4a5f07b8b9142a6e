"""What pods do on a real kubelet and on the runner: a table of small pods (``pod_table.py``).

tests/golden/kubelet.json holds what the real one did with them, so that this means something
where there is none; where there is, the file is compared with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gm.api.meta import Json
from gm.api.resources import NAMESPACES
from tests.cluster import servers
from tests.cluster.cluster import Cluster
from tests.edge_stub.runner.pod_grounds import kubelet_ground, runner_ground
from tests.edge_stub.runner.pod_observing import observe_all
from tests.edge_stub.runner.pod_table import CASES

# All pods run at once, in one process, for all tests of this module.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("kubelet")]

_LOOKS = 3

ROOT = Path(__file__).parents[3]
NAMES = [case.name for case in CASES]
RECORDED: dict[str, Json] = json.loads((ROOT / "tests" / "golden" / "kubelet.json").read_text())[
    "pods"
]
DOCUMENT = " ".join((ROOT / "docs" / "edge.md").read_text().split())


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A difference that is meant: words of docs/edge.md that tell it, and what the runner does.

    ``places`` maps places such as ``logs/main/text``, where ``*`` stands for anything, to what is
    there instead; None is for nothing. ``events`` maps events to those that come instead; ""
    stands for none on either side.
    """

    line: str
    pods: tuple[str, ...]
    places: Mapping[str, Any] = field(default_factory=dict)
    events: Mapping[str, str] = field(default_factory=dict)

    def applied(self, seen: Json) -> Json:
        """``seen`` with the difference."""
        changed: Json = json.loads(json.dumps(seen))
        for place, value in self.places.items():
            for parent, last in _find(changed, place.split("/")):
                if value is None:
                    del parent[last]
                else:
                    parent[last] = value
        for event, instead in self.events.items():
            if event in changed["events"] or not event:
                others = [one for one in changed["events"] if one != event]
                changed["events"] = sorted([*others, *([instead] if instead else [])])
        return changed


def _find(value: Any, path: list[str]) -> Iterator[tuple[Any, Any]]:
    """The parents of what is at ``path``, and the key or index in them."""
    first, *rest = path
    keys: list[Any]
    if first == "*":
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    else:
        keys = [int(first) if isinstance(value, list) else first]
    for key in keys:
        if not rest:
            yield value, key
        elif isinstance(value, list) or key in value:
            yield from _find(value[key], rest)


def lines(*texts: str) -> str:
    """A log."""
    return "".join(f"{text}\n" for text in texts)


MOUNT = 'MountVolume.SetUp failed for volume "{}" : {}'
NO_PATH = MOUNT.format("d", "hostPath type check failed: {} is not a {}")
NO_IMAGE = 'Container image "localhost/nowhere:1" is not present with pull policy of Never'
NO_IMAGE_HERE = (
    f"{NO_IMAGE}: the gm runner runs local processes and pulls nothing; give the container a "
    "`command`, or start the node with --image 'localhost/nowhere:1=PROGRAM ARG...'"
)
RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: "
)
NO_PROGRAM = 'exec: "/no/such/program": {}/no/such/program: no such file or directory'
NOT_ON_PATH = 'exec: "nosuchprogram": executable file not found in $PATH'
STATE = "containerStatuses/main/state"
NOT_PULLED = "there are no images"
NOT_ADMITTED = "a pod that does not fit its node is run all the same"


VARIABLES = {
    "GM_RUNNER_CONTAINER",
    "HOME",
    "HOSTNAME",
    "HOST_IP",
    "PATH",
    "POD_IP",
    "PYTHONUNBUFFERED",
    "TMPDIR",
} | ({"LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH"} & set(os.environ))


def unfit(pod: str, event: str, **changes: Any) -> Accepted:
    """A pod that a kubelet rejects and the runner runs."""
    status: Json = json.loads(json.dumps(RECORDED["image-alone"]["statuses"]["succeeded"]))
    mounts = RECORDED["user"]["statuses"]["succeeded"]["containerStatuses"]["main"]["volumeMounts"]
    status["containerStatuses"]["main"] |= {"volumeMounts": mounts, **changes}
    status["qosClass"] = RECORDED[pod]["statuses"]["ended"]["qosClass"]
    return Accepted(
        line=NOT_ADMITTED,
        pods=(pod,),
        places={"statuses/ended": status, "phases": ["Pending", "Succeeded"]},
        events={
            event: "Normal Created: Created container: main",
            "": "Normal Started: Started container main",
        },
    )


ACCEPTED = (
    unfit(
        "too-large",
        "Warning OutOfcpu: Node didn't have enough resource: cpu, requested: 1000000, capacity: N",
        resources={"requests": {"cpu": "1k"}},
        allocatedResources={"cpu": "1k"},
    ),
    unfit(
        "other-node",
        "Warning NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node "
        "affinity/selector",
    ),
    Accepted(
        line=NOT_PULLED,
        pods=tuple(NAMES),
        places={
            "statuses/*/containerStatuses/*/imageID": "",
            "statuses/*/initContainerStatuses/*/imageID": "",
        },
        events={
            'Normal Pulled: Container image "localhost/busybox:1" already present on machine': ""
        },
    ),
    Accepted(
        line=NOT_PULLED,
        pods=("no-image",),
        places={f"statuses/waiting/{STATE}/waiting/message": NO_IMAGE_HERE},
        events={
            f"Warning ErrImageNeverPull: {NO_IMAGE}": f"Warning ErrImageNeverPull: {NO_IMAGE_HERE}"
        },
    ),
    Accepted(
        line="why a program can not be executed is told without the words of containerd and runc",
        pods=("no-such-program",),
        places={f"statuses/failed/{STATE}/terminated/message": NO_PROGRAM.format("")},
        events={
            f"Warning Failed: Error: {RUNC}{NO_PROGRAM.format('stat ')}: unknown": (
                f"Warning Failed: Error: {NO_PROGRAM.format('')}"
            )
        },
    ),
    Accepted(
        line="why a program can not be executed is told without the words of containerd and runc",
        pods=("not-on-path",),
        places={
            "statuses/back-off/containerStatuses/main/lastState/terminated/message": NOT_ON_PATH
        },
        events={
            f"Warning Failed: Error: {RUNC}{NOT_ON_PATH}: unknown": (
                f"Warning Failed: Error: {NOT_ON_PATH}"
            )
        },
    ),
    Accepted(
        line="SIGTERM ends a program that does not handle it",
        pods=("no-handler",),
        places={f"statuses/deleted/{STATE}/terminated/exitCode": 143},
    ),
    Accepted(
        line="conditions of a pod that is deleted before it was started",
        pods=("deleted-before-start",),
        places={
            "statuses/deleted/conditions/2": "Ready False @2 PodFailed",
            "statuses/deleted/conditions/3": "ContainersReady False @2 PodFailed",
        },
    ),
    Accepted(
        line="no variables for services",
        pods=("env-expansion",),
        places={
            "logs/main/text": RECORDED["env-expansion"]["logs"]["main"]["text"].replace(
                "T_SERVICE=443", "T_SERVICE=$(KUBERNETES_SERVICE_PORT)"
            )
        },
    ),
    Accepted(
        line="`POD_IP`, `HOST_IP`, `TMPDIR`, `PYTHONUNBUFFERED`, `GM_RUNNER_CONTAINER`",
        pods=("env-names",),
        places={
            "logs/main/text": lines(
                *sorted(VARIABLES),
                "env-names",
                "MACHINE/state/runner/pods/UID/rootfs/main",
            )
        },
    ),
    Accepted(
        line="what a pod waits for is also in the state of its containers",
        pods=("volume-missing",),
        places={
            f"statuses/waiting/{STATE}/waiting/message": MOUNT.format(
                "s", 'secret "files-late" not found'
            )
        },
    ),
    Accepted(
        line="what a pod waits for is also in the state of its containers",
        pods=("host-path-missing",),
        places={
            f"statuses/waiting/{STATE}/waiting/message": (
                NO_PATH.format("HOST/d", "directory") + " (on this machine: MACHINE/rootHOST/d)"
            )
        },
        events={
            "Warning FailedMount: " + NO_PATH.format("HOST/d", "directory"): (
                "Warning FailedMount: "
                + NO_PATH.format("HOST/d", "directory")
                + " (on this machine: MACHINE/rootHOST/d)"
            )
        },
    ),
    Accepted(
        line="what a pod waits for is also in the state of its containers",
        pods=("host-path-other",),
        places={
            f"statuses/waiting/{STATE}/waiting/message": (
                NO_PATH.format("/proc", "file") + " (on this machine: MACHINE/root/proc)"
            )
        },
        events={
            "Warning FailedMount: " + NO_PATH.format("/proc", "file"): (
                "Warning FailedMount: "
                + NO_PATH.format("/proc", "file")
                + " (on this machine: MACHINE/root/proc)"
            )
        },
    ),
    Accepted(
        line="annotations that a kubelet keeps for itself",
        pods=("volumes",),
        places={
            "logs/main/text": RECORDED["volumes"]["logs"]["main"]["text"].replace(
                'kubernetes.io/config.seen="STAMP"\nkubernetes.io/config.source="api"\n', ""
            )
        },
    ),
    Accepted(
        line="`readOnly` is not enforced",
        pods=("read-only",),
        places={"logs/main/text": "written\n", "files/f": "0644 x\n"},
    ),
    Accepted(
        line="a mount path in a variable or an argument reads as the real one",
        pods=("mount-in-env",),
        places={
            "logs/main/text": lines("text", "MACHINE/state/runner/pods/UID/volumes/c/a"),
        },
    ),
    Accepted(
        line="no service account tokens",
        pods=("token",),
        places={
            "logs/main/text": "",
            "statuses/succeeded/containerStatuses/main/volumeMounts/1": None,
        },
    ),
    Accepted(
        line="lifecycle hooks are not run",
        pods=("hooks",),
        places={"files/pre": None, "files/post": None},
        events={
            "": "Warning Unsupported: the gm runner does not run lifecycle hooks (container main)"
        },
    ),
    Accepted(
        line="`securityContext` counts for nothing",
        pods=("user",),
        places={"logs/main/text": f"{os.getuid()}\n"},
    ),
)


def expected(name: str, kind: str) -> Json:
    """What is to be seen of a pod."""
    seen = RECORDED[name]
    for accepted in ACCEPTED if kind == "runner" else ():
        if name in accepted.pods:
            seen = accepted.applied(seen)
    return seen


_seen: dict[str, dict[str, Json]] = {}


@pytest.fixture
async def seen(kind: str, tmp_path: Path) -> dict[str, Json]:
    """What is seen of all pods; they are run once for all tests."""
    if kind not in _seen:
        wanted = {name: expected(name, kind) for name in NAMES}
        if kind == "kubelet":
            paths = await asyncio.to_thread(servers.server_or_skip, "kubelet")
            _seen[kind] = await _observe_kubelet(paths, wanted)
            await asyncio.to_thread(servers.end_server, "kubelet")
        else:
            namespace = f"t-{secrets.token_hex(5)}"
            paths = await asyncio.to_thread(servers.server, "embedded")
            cluster = Cluster("embedded", paths, namespace)
            async with cluster.client() as client:
                await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
            before = os.umask(0o022)  # a kubelet's
            try:
                async with runner_ground(cluster, tmp_path) as ground:
                    _seen[kind] = await observe_all(ground, CASES, wanted)
            finally:
                os.umask(before)
    return _seen[kind]


async def _observe_kubelet(paths: Mapping[str, str], wanted: Mapping[str, Json]) -> dict[str, Json]:
    """What is seen of the pods on a real kubelet.

    One that starts sixty pods on a busy machine has races of its own (it misses a short state, or
    restarts a container once more): what differs is looked at again with fewer pods around it.
    """
    found: dict[str, Json] = {}
    for _ in range(_LOOKS):
        differing = [case for case in CASES if found.get(case.name) != wanted[case.name]]
        if differing:
            async with kubelet_ground(paths) as ground:
                found |= await observe_all(ground, differing, wanted)
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["runner", "kubelet"])
async def test_a_pod_does_what_it_does_on_a_real_kubelet(
    seen: dict[str, Json], kind: str, name: str
) -> None:
    """Phases, statuses at each step, logs, files on the node, and events."""
    assert seen[name] == expected(name, kind)


@pytest.mark.parametrize("accepted", ACCEPTED, ids=lambda accepted: accepted.pods[0])
def test_an_accepted_difference_is_one_and_is_written_down(accepted: Accepted) -> None:
    """The list holds nothing that has been fixed, and the document says why of each."""
    assert any(accepted.applied(RECORDED[name]) != RECORDED[name] for name in accepted.pods)
    assert accepted.line in DOCUMENT


def test_every_pod_has_been_recorded() -> None:
    """Whoever adds a pod records what a real kubelet makes of it."""
    assert list(RECORDED) == NAMES
