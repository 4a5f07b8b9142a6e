"""The table of small pods: what a kubelet makes of each is kept in tests/golden/kubelet.json.

Each pod is led by its steps, so that it is the same on a slow machine: a container goes on when
the test has made a file at its ``/gate``.
"""

from __future__ import annotations

import base64
from typing import Any

from gm.api.meta import Json
from gm.api.resources import CONFIG_MAPS, PODS, SECRETS
from tests.edge_stub.runner.pod_cases import (
    IMAGE,
    Answer,
    Case,
    Change,
    Create,
    Delete,
    HasEvent,
    HasFile,
    HasLog,
    Log,
    Make,
    Remove,
    Until,
    all_of,
    condition,
    container,
    ended,
    phase,
    restarted,
    running,
    script,
    wait_for,
    waiting,
)

__all__ = ["CASES"]

GO = wait_for("/gate/go")
RUN = "echo x >> /gate/runs; echo run $(wc -l < /gate/runs)"
SLEEP = "while :; do sleep 0.1; done"

SUCCEEDED = Until("succeeded", phase("Succeeded"))
FAILED = Until("failed", phase("Failed"))
ENDED = Until("ended", lambda pod: phase("Failed")(pod) or phase("Succeeded")(pod))


def secret(name: str, **data: str) -> tuple[Any, Json]:
    """A Secret."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return SECRETS, {"metadata": {"name": name}, "data": encoded}


def config(name: str, **data: str) -> tuple[Any, Json]:
    """A ConfigMap."""
    return CONFIG_MAPS, {"metadata": {"name": name}, "data": data}


def value(name: str, text: str) -> Json:
    """A variable."""
    return {"name": name, "value": text}


def field(name: str, path: str) -> Json:
    """A variable from the downward API."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def amount(name: str, resource: str, **more: str) -> Json:
    """A variable from a container's resources."""
    return {"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource, **more}}}


def key(name: str, kind: str, source: str, key: str, **more: Any) -> Json:
    """A variable from a key of a Secret or ConfigMap."""
    return {"name": name, "valueFrom": {kind: {"name": source, "key": key, **more}}}


# Prints each file of a directory: name, mode and text.
LIST = """
cd {} && for f in $(find . -follow -type f ! -path '*/..*' | sort); do
  printf '%s %s %s\\n' $f $(stat -L -c %a $f) "$(cat $f)"
done
"""

ENDS = (
    Case(
        "succeeds",
        "phases and states of a container that ends with 0",
        {"containers": [container(f"echo hello; {GO}")]},
        (Until("running", running()), Make("go"), SUCCEEDED),
    ),
    Case(
        "fails",
        "phases and states of a container that ends with 3",
        {"containers": [container(f"{GO}; exit 3")]},
        (Until("running", running()), Make("go"), FAILED),
    ),
    Case(
        "fails-and-succeeds",
        "two containers of which one fails: the pod has failed when both have ended",
        {
            "containers": [
                container(f"{GO}; exit 1", "bad"),
                container(wait_for("/gate/on"), "good"),
            ]
        },
        (
            Until("both run", all_of(running("bad"), running("good"))),
            Make("go"),
            Until("one failed", ended("bad")),
            Make("on"),
            FAILED,
        ),
        logs=(),
    ),
    Case(
        "again-on-failure",
        "OnFailure starts a container that failed once more, and no container that succeeded",
        {
            "restartPolicy": "OnFailure",
            "containers": [
                container(
                    f"""
                    [ -e /gate/second ] && echo second && {wait_for("/gate/on")} && exit 0
                    touch /gate/second; echo first; {GO}; exit 9
                    """
                ),
                container("exit 0", "other"),
            ],
        },
        (
            Until("first run", all_of(running(), ended("other"))),
            Make("go"),
            Until("second run", all_of(running(), restarted(1))),
            Make("on"),
            SUCCEEDED,
        ),
        logs=(Log(), Log("main", (("previous", "true"),)), Log("other", (("previous", "true"),))),
    ),
    Case(
        "crash-loop",
        "back-off: none before the first restart, then 10 s, then 20 s",
        {
            "restartPolicy": "Always",
            "containers": [container(f"{RUN}; exit 2")],
        },
        (
            Until("10 s", waiting("CrashLoopBackOff", message="10s")),
            HasEvent("BackOff"),
            Until("20 s", waiting("CrashLoopBackOff", message="20s")),
        ),
        logs=(Log(), Log("main", (("previous", "true"),))),
    ),
    Case(
        "succeeds-always",
        "Always starts a container again that succeeded",
        {
            "restartPolicy": "Always",
            "containers": [container(f"{RUN}; [ $(wc -l < /gate/runs) = 3 ] && {GO}")],
        },
        (
            Until("back-off", all_of(waiting("CrashLoopBackOff"), restarted(1))),
            Until("third run", all_of(running(), restarted(2))),
        ),
        logs=(Log(), Log("main", (("previous", "true"),))),
    ),
    Case(
        "too-long",
        "activeDeadlineSeconds: SIGTERM, and the pod has failed whatever the exit code",
        {
            "restartPolicy": "OnFailure",
            "containers": [container(f"trap 'exit 0' TERM; touch /gate/set; {SLEEP}")],
        },
        (
            Until("running", running()),
            HasFile("set"),
            Change(PODS, {"spec": {"activeDeadlineSeconds": 1}}),
            Until("failed", all_of(phase("Failed"), ended())),
        ),
        logs=(),
    ),
    Case(
        "no-such-program",
        "a command that is not there",
        {"containers": [{"name": "main", "image": IMAGE, "command": ["/no/such/program"]}]},
        (FAILED, HasEvent("Failed")),
        logs=(),
    ),
    Case(
        "not-on-path",
        "a command that is not on PATH, started again and again",
        {
            "restartPolicy": "OnFailure",
            "containers": [{"name": "main", "image": IMAGE, "command": ["nosuchprogram"]}],
        },
        (Until("back-off", all_of(waiting("CrashLoopBackOff"), restarted(1))),),
        logs=(),
    ),
    Case(
        "no-image",
        "an image that is not there and may not be pulled",
        {
            "containers": [
                {"name": "main", "image": "localhost/nowhere:1", "imagePullPolicy": "Never"}
            ]
        },
        (Until("waiting", waiting("ErrImageNeverPull")),),
        logs=(Log(),),
    ),
    Case(
        "image-alone",
        "a container without a command runs what its image says",
        {"containers": [{"name": "main", "image": IMAGE}]},
        (SUCCEEDED,),
    ),
)

TERMINATION = (
    Case(
        "ends-at-sigterm",
        "a deleted pod ends by SIGTERM; its exit code says whether it failed",
        {
            "restartPolicy": "Always",
            "containers": [
                container(
                    "trap 'echo bye > /gate/bye; echo why > /dev/termination-log; exit 5' TERM; "
                    f"touch /gate/set; {SLEEP}"
                )
            ],
        },
        (Until("running", running()), HasFile("set"), Delete()),
        logs=(),
    ),
    Case(
        "ends-well-at-sigterm",
        "exit code 0 after SIGTERM is success, also with Always",
        {
            "restartPolicy": "Always",
            "containers": [
                container(f"trap 'exit 0' TERM; touch /gate/set; {SLEEP}"),
                container(f"trap 'exit 0' TERM; touch /gate/set2; {SLEEP}", "other"),
            ],
        },
        (
            Until("running", all_of(running(), running("other"))),
            HasFile("set"),
            HasFile("set2"),
            Delete(),
        ),
        logs=(),
    ),
    Case(
        "ignores-sigterm",
        "SIGKILL when the grace period, here the spec's, is over",
        {
            "terminationGracePeriodSeconds": 1,
            "containers": [container(f"trap '' TERM; touch /gate/set; {SLEEP}")],
        },
        (Until("running", running()), HasFile("set"), Delete()),
        logs=(),
    ),
    Case(
        "ignores-sigterm-shortly",
        "SIGKILL when the grace period that the deletion asks for is over",
        {"containers": [container(f"trap '' TERM; touch /gate/set; {SLEEP}")]},
        (Until("running", running()), HasFile("set"), Delete(1)),
        logs=(),
    ),
    Case(
        "no-handler",
        "SIGTERM to a program that does not know it",
        {"containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "1000"]}]},
        (Until("running", running()), Delete(1)),
        logs=(),
    ),
    Case(
        "deleted-in-back-off",
        "a pod deleted while its container waits to be started again",
        {"restartPolicy": "Always", "containers": [container("exit 2")]},
        (Until("back-off", waiting("CrashLoopBackOff")), Delete()),
        logs=(),
    ),
    Case(
        "deleted-before-start",
        "a pod deleted while it waits for a volume",
        {
            "containers": [container("exit 0", volumeMounts=[{"name": "s", "mountPath": "/s"}])],
            "volumes": [{"name": "s", "secret": {"secretName": "never"}}],
        },
        (HasEvent("FailedMount"), Delete()),
        logs=(),
    ),
    Case(
        "deleted-after-end",
        "a pod deleted after it has ended",
        {"containers": [container("exit 4")]},
        (FAILED, Delete()),
        logs=(),
    ),
)

INIT = (
    Case(
        "init-order",
        "init containers one after the other, then the others",
        {
            "initContainers": [
                container(f"echo one; {wait_for('/gate/1')}", "one"),
                container(f"echo two; {wait_for('/gate/2')}", "two"),
            ],
            "containers": [container(f"echo main; {GO}")],
        },
        (
            Until("one runs", running("one")),
            Make("1"),
            Until("two runs", running("two")),
            Make("2"),
            Until("main runs", running()),
            Make("go"),
            SUCCEEDED,
        ),
        logs=(Log("one"), Log("two"), Log()),
    ),
    Case(
        "init-fails",
        "an init container that fails, with Never: the pod has failed",
        {
            "initContainers": [container("exit 6", "one"), container("exit 0", "two")],
            "containers": [container("exit 0")],
        },
        (FAILED,),
    ),
    Case(
        "init-again",
        "an init container that fails once, with OnFailure",
        {
            "restartPolicy": "OnFailure",
            "initContainers": [
                container(
                    f"[ -e /gate/n ] && exit 0; touch /gate/n; {wait_for('/gate/1')}; exit 1", "one"
                )
            ],
            "containers": [container(GO)],
        },
        (
            Until("one runs", running("one")),
            Make("1"),
            Until("main runs", running()),
            Make("go"),
            SUCCEEDED,
        ),
        logs=(),
    ),
    Case(
        "init-crash-loop",
        "an init container that fails for ever, with Always",
        {
            "restartPolicy": "Always",
            "initContainers": [container("exit 1", "one")],
            "containers": [container("exit 0")],
        },
        (Until("back-off", waiting("CrashLoopBackOff", "one")), HasEvent("BackOff")),
        logs=(Log(),),
    ),
    Case(
        "sidecar",
        "an init container with restartPolicy Always runs beside the others, and is ended last",
        {
            "initContainers": [
                container(
                    f"trap 'exit 0' TERM; touch /gate/set; {SLEEP}", "side", restartPolicy="Always"
                ),
                container("exit 0", "two"),
            ],
            "containers": [container(GO)],
        },
        (
            Until("running", all_of(running("side"), running())),
            HasFile("set"),
            Make("go"),
            Until("succeeded", all_of(phase("Succeeded"), ended("side"))),
        ),
        logs=(),
    ),
    Case(
        "sidecar-ends",
        "a sidecar that ends is started again, whatever the pod's policy",
        {
            "initContainers": [
                container(
                    f"""
                    trap 'exit 0' TERM; [ -e /gate/second ] && {SLEEP}
                    touch /gate/second; {wait_for("/gate/1")}; exit 3
                    """,
                    "side",
                    restartPolicy="Always",
                )
            ],
            "containers": [container(GO)],
        },
        (
            Until("running", all_of(running("side"), running())),
            Make("1"),
            Until("again", all_of(restarted(1, "side"), running("side"))),
            Make("go"),
            Until("succeeded", all_of(phase("Succeeded"), ended("side"))),
        ),
        logs=(),
    ),
)

ENVIRONMENT = (
    Case(
        "env-expansion",
        "$(VAR) sees what stands before it, in env, command and args",
        {
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": ["sh", "-c", 'env | grep ^T_ | sort; echo "$0" "$@"'],
                    "args": ["$(T_A)", "$$(T_A)", "$$$(T_A)", "$(T_NONE)", "x$(T_B", "$(T_LATER)"],
                    "env": [
                        value("T_A", "a"),
                        value("T_B", "$(T_A)b"),
                        value("T_EARLY", "$(T_LATER)"),
                        value("T_LATER", "late"),
                        value("T_TWICE", "one"),
                        value("T_SEES", "$(T_TWICE)"),
                        value("T_TWICE", "two $(T_TWICE)"),
                        value("T_ESCAPED", "$$(T_A) $$$(T_A) $$ $ $("),
                        value("T_SPACED", "$( T_A ) $(T_A"),
                        value("T_EMPTY", ""),
                        value("T_ITSELF", "$(T_ITSELF)"),
                        value("T_PATH", "$(PATH)"),
                        value("T_SERVICE", "$(KUBERNETES_SERVICE_PORT)"),
                    ],
                }
            ]
        },
        (SUCCEEDED,),
    ),
    Case(
        "env-sources",
        "Secrets and ConfigMaps as variables: prefixes, order, and what is optional",
        {
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": script("env | grep ^T_ | sort"),
                    "envFrom": [
                        {"configMapRef": {"name": "env-one"}},
                        {"secretRef": {"name": "env-two"}},
                        {"prefix": "T_PRE_", "configMapRef": {"name": "env-one"}},
                        {"secretRef": {"name": "env-none", "optional": True}},
                    ],
                    "env": [
                        value("T_C", "from env"),
                        value("T_SEES", "$(T_A) $(T_B) $(T_PRE_T_A)"),
                        key("T_KEY", "secretKeyRef", "env-two", "T_B"),
                        key("T_CONFIG", "configMapKeyRef", "env-one", "T_A"),
                        key("T_GONE", "secretKeyRef", "env-two", "no", optional=True),
                        key("T_GONE_TOO", "configMapKeyRef", "env-none", "no", optional=True),
                    ],
                }
            ]
        },
        (SUCCEEDED,),
        objects=(
            config("env-one", T_A="a of one", T_B="b of one", T_C="c of one"),
            secret("env-two", **{"T_B": "b of two", "T_C": "c of two", "T_.d-e": "odd"}),
        ),
    ),
    Case(
        "env-missing",
        "a container waits for the Secret that its environment is made from",
        {
            "containers": [
                container("echo $T_KEY", env=[key("T_KEY", "secretKeyRef", "env-late", "k")])
            ]
        },
        (
            Until("waiting", waiting("CreateContainerConfigError")),
            HasEvent("Failed"),
            Create(*secret("env-late", k="came")),
            SUCCEEDED,
        ),
    ),
    Case(
        "env-missing-key",
        "a container waits for the key of a ConfigMap",
        {
            "containers": [
                container("echo $T_KEY", env=[key("T_KEY", "configMapKeyRef", "env-keys", "k")])
            ]
        },
        (
            Until("waiting", waiting("CreateContainerConfigError")),
            HasEvent("Failed"),
            Change(CONFIG_MAPS, {"data": {"k": "came"}}, "env-keys"),
            SUCCEEDED,
        ),
        objects=(config("env-keys", other="x"),),
    ),
    Case(
        "env-downward",
        "what a pod is told about itself in variables",
        {
            "serviceAccountName": "default",
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": script("env | grep ^T_ | sort"),
                    "resources": {
                        "requests": {"cpu": "10m", "memory": "1Mi"},
                        "limits": {"cpu": "1500m", "memory": "100M"},
                    },
                    "env": [
                        field("T_NAME", "metadata.name"),
                        field("T_NAMESPACE", "metadata.namespace"),
                        field("T_UID", "metadata.uid"),
                        field("T_LABEL", "metadata.labels['app']"),
                        field("T_NOTE", "metadata.annotations['example.com/note']"),
                        field("T_NO_LABEL", "metadata.labels['none']"),
                        field("T_NODE", "spec.nodeName"),
                        field("T_ACCOUNT", "spec.serviceAccountName"),
                        field("T_POD_IP", "status.podIP"),
                        field("T_POD_IPS", "status.podIPs"),
                        field("T_HOST_IP", "status.hostIP"),
                        field("T_HOST_IPS", "status.hostIPs"),
                        amount("T_CPU", "requests.cpu"),
                        amount("T_CPU_MILLI", "requests.cpu", divisor="1m"),
                        amount("T_CPU_LIMIT", "limits.cpu"),
                        amount("T_MEMORY", "requests.memory"),
                        amount("T_MEMORY_KI", "limits.memory", divisor="1Ki"),
                        amount("T_MEMORY_MI", "limits.memory", divisor="1Mi"),
                        amount("T_DISK", "requests.ephemeral-storage"),
                        amount("T_OTHER", "requests.memory", containerName="other"),
                    ],
                },
                {
                    "name": "other",
                    "image": IMAGE,
                    "command": ["true"],
                    "resources": {"requests": {"memory": "3Mi"}},
                },
            ],
        },
        (SUCCEEDED,),
        metadata={
            "labels": {"app": "shown"},
            "annotations": {"example.com/note": 'two\nlines "quoted"'},
        },
    ),
    Case(
        "env-names",
        "the variables that a process finds, and where it stands",
        {
            "containers": [
                container(
                    "tr '\\0' '\\n' < /proc/$$$$/environ | sed 's/=.*//' | sort; "
                    "echo $HOSTNAME; pwd"
                )
            ]
        },
        (SUCCEEDED,),
    ),
    Case(
        "host-name",
        "spec.hostname",
        {
            "hostname": "other",
            "subdomain": "sub",
            "containers": [container("echo $HOSTNAME")],
        },
        (SUCCEEDED,),
    ),
    Case(
        "host-network",
        "a pod in its node's network",
        {
            "hostNetwork": True,
            "containers": [container("echo $T_IP $T_IPS", env=[field("T_IP", "status.podIP")])],
        },
        (SUCCEEDED,),
    ),
    Case(
        "working-dir",
        "workingDir, made if it is missing",
        {"containers": [container("pwd; touch here", workingDir="/gate/sub/dir")]},
        (SUCCEEDED,),
        logs=(),
    ),
)

FILES = (
    Case(
        "host-paths",
        "hostPath volumes of all types; what is missing is made",
        {
            "containers": [
                container(
                    """
                    umask 022
                    cat /f; cat /d/in; echo new > /d/new; echo made > /made/file
                    echo text > /touched; echo more > /plain/more; echo sub > /sub/x
                    [ -e /made/no ] || echo no such file
                    """,
                    volumeMounts=[
                        {"name": "d", "mountPath": "/d"},
                        {"name": "f", "mountPath": "/f"},
                        {"name": "made", "mountPath": "/made/"},
                        {"name": "touched", "mountPath": "/touched"},
                        {"name": "plain", "mountPath": "/plain"},
                        {"name": "d", "mountPath": "/sub", "subPath": "deep/er"},
                    ],
                )
            ],
            "volumes": [
                {"name": "d", "hostPath": {"path": "<host>/d", "type": ""}},
                {"name": "f", "hostPath": {"path": "<host>/f"}},
                {
                    "name": "made",
                    "hostPath": {"path": "<host>/made", "type": "DirectoryOrCreate"},
                },
                {"name": "touched", "hostPath": {"path": "<host>/t", "type": "FileOrCreate"}},
                {"name": "plain", "hostPath": {"path": "<host>/p/q"}},
            ],
        },
        (SUCCEEDED,),
        files=(Make("d/in", "in\n"), Make("f", "file\n")),
    ),
    Case(
        "host-path-missing",
        "a pod waits for a hostPath that must be there",
        {
            "containers": [container("ls /d", volumeMounts=[{"name": "d", "mountPath": "/d"}])],
            "volumes": [{"name": "d", "hostPath": {"path": "<host>/d", "type": "Directory"}}],
        },
        (
            HasEvent("FailedMount"),
            Until("waiting", waiting("ContainerCreating")),
            Make("d/file"),
            SUCCEEDED,
        ),
    ),
    Case(
        "host-path-other",
        "a hostPath of another type",
        {
            "containers": [container("exit 0", volumeMounts=[{"name": "d", "mountPath": "/d"}])],
            "volumes": [{"name": "d", "hostPath": {"path": "/proc", "type": "File"}}],
        },
        (HasEvent("FailedMount"), Until("waiting", waiting("ContainerCreating"))),
        logs=(Log(),),
    ),
    Case(
        "volumes",
        "files of Secrets, ConfigMaps and the downward API, with their modes",
        {
            "containers": [
                container(
                    "".join(LIST.format(f"/v/{name}") for name in ("s", "c", "d", "p"))
                    + "cat /v/one",
                    volumeMounts=[
                        {"name": "s", "mountPath": "/v/s"},
                        {"name": "c", "mountPath": "/v/c"},
                        {"name": "d", "mountPath": "/v/d"},
                        {"name": "p", "mountPath": "/v/p"},
                        {"name": "c", "mountPath": "/v/one", "subPath": "b"},
                    ],
                )
            ],
            "volumes": [
                {"name": "s", "secret": {"secretName": "files-s", "defaultMode": 0o400}},
                {
                    "name": "c",
                    "configMap": {
                        "name": "files-c",
                        "items": [
                            {"key": "a", "path": "deep/a", "mode": 0o600},
                            {"key": "b", "path": "b"},
                        ],
                    },
                },
                {
                    "name": "d",
                    "downwardAPI": {
                        "items": [
                            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                            {"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations"}},
                            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
                            {
                                "path": "memory",
                                "resourceFieldRef": {
                                    "containerName": "main",
                                    "resource": "requests.memory",
                                    "divisor": "1Ki",
                                },
                            },
                        ]
                    },
                },
                {
                    "name": "p",
                    "projected": {
                        "defaultMode": 0o440,
                        "sources": [
                            {"secret": {"name": "files-s"}},
                            {"configMap": {"name": "files-none", "optional": True}},
                            {
                                "downwardAPI": {
                                    "items": [
                                        {
                                            "path": "namespace",
                                            "fieldRef": {"fieldPath": "metadata.namespace"},
                                        }
                                    ]
                                }
                            },
                        ],
                    },
                },
            ],
        },
        (SUCCEEDED,),
        metadata={"labels": {"b": "2", "a": "1"}, "annotations": {"note": 'two\nlines "quoted"'}},
        objects=(
            secret("files-s", password="secret", user="me"),
            config("files-c", a="text of a", b="text of b", c="left out"),
        ),
    ),
    Case(
        "volume-missing",
        "a pod waits for the Secret of a volume",
        {
            "containers": [container("cat /s/k", volumeMounts=[{"name": "s", "mountPath": "/s"}])],
            "volumes": [{"name": "s", "secret": {"secretName": "files-late"}}],
        },
        (
            HasEvent("FailedMount"),
            Until("waiting", waiting("ContainerCreating")),
            Create(*secret("files-late", k="came")),
            SUCCEEDED,
        ),
    ),
    Case(
        "volume-unused",
        "a volume that no container mounts is not waited for",
        {
            "containers": [container("exit 0")],
            "volumes": [{"name": "s", "secret": {"secretName": "never"}}],
        },
        (SUCCEEDED,),
    ),
    Case(
        "volume-refresh",
        "mounted Secrets and labels follow their objects, mounts with subPath do not",
        {
            "containers": [
                container(
                    f"""
                    cat /s/k /s/old /one; echo; cat /d/labels; echo
                    until grep -q new /s/k && grep -q new /d/labels; do sleep 0.1; done
                    cat /s/k /s/more /one; echo; cat /d/labels; echo
                    [ -e /s/old ] || echo old is gone
                    touch /gate/seen; {GO}
                    """,
                    volumeMounts=[
                        {"name": "s", "mountPath": "/s"},
                        {"name": "d", "mountPath": "/d"},
                        {"name": "s", "mountPath": "/one", "subPath": "k"},
                    ],
                )
            ],
            "volumes": [
                {"name": "s", "secret": {"secretName": "files-changing"}},
                {
                    "name": "d",
                    "downwardAPI": {
                        "items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
                    },
                },
            ],
        },
        (
            HasLog("first"),
            Change(
                SECRETS,
                {"stringData": {"k": "new k.", "more": "more."}, "data": {"old": None}},
                "files-changing",
            ),
            # the pod's change is what makes a kubelet look at once, and not within a minute
            Change(PODS, {"metadata": {"labels": {"l": "new"}}}),
            HasFile("seen"),
            Make("go"),
            SUCCEEDED,
        ),
        metadata={"labels": {"l": "first"}},
        objects=(secret("files-changing", k="first k.", old="old."),),
    ),
    Case(
        "files-and-restarts",
        "what is left of a container's files when it is started again",
        {
            "restartPolicy": "OnFailure",
            "containers": [
                container(
                    f"""
                    for f in $HOME/own here /e/shared /gate/host; do
                      echo x >> $f; echo $(wc -l < $f)
                    done
                    [ $(wc -l < /gate/host) = 2 ] && exit 0
                    {GO}; exit 1
                    """,
                    volumeMounts=[{"name": "e", "mountPath": "/e"}],
                )
            ],
            "volumes": [{"name": "e", "emptyDir": {}}],
        },
        (Until("running", running()), Make("go"), SUCCEEDED),
        logs=(Log(),),
    ),
    Case(
        "read-only",
        "a mount with readOnly",
        {
            "containers": [
                container(
                    "(echo x > /r/f) 2> /dev/null && echo written || echo refused",
                    volumeMounts=[{"name": "gate", "mountPath": "/r", "readOnly": True}],
                )
            ]
        },
        (SUCCEEDED,),
    ),
    Case(
        "mount-in-env",
        "a mount path in a variable",
        {
            "containers": [
                container(
                    "cat $T_FILE; echo $T_FILE",
                    env=[value("T_FILE", "/c/a")],
                    volumeMounts=[{"name": "c", "mountPath": "/c"}],
                )
            ],
            "volumes": [{"name": "c", "configMap": {"name": "files-env"}}],
        },
        (SUCCEEDED,),
        objects=(config("files-env", a="text\n"),),
    ),
    Case(
        "token",
        "a token of the service account",
        {
            "automountServiceAccountToken": True,
            "containers": [
                container("ls /var/run/secrets/kubernetes.io/serviceaccount 2> /dev/null; exit 0")
            ],
        },
        (SUCCEEDED,),
    ),
    Case(
        "termination-message",
        "what a container leaves in its termination message, or else in its log",
        {
            "containers": [
                container("echo well > /dev/termination-log", "file"),
                container(
                    "echo custom > /tmp/why; echo log; exit 1",
                    "path",
                    terminationMessagePath="/tmp/why",
                ),
                container("echo out; exit 1", "none"),
                container(
                    "for n in 1 2 3; do echo line $n; done; exit 1",
                    "log",
                    terminationMessagePolicy="FallbackToLogsOnError",
                ),
                container(
                    "echo out; echo file > /dev/termination-log; exit 1",
                    "both",
                    terminationMessagePolicy="FallbackToLogsOnError",
                ),
                container("echo out", "well", terminationMessagePolicy="FallbackToLogsOnError"),
                container("yes 123456789 | head -n 1000 > /dev/termination-log", "much"),
                container(
                    "yes 123456789 | head -n 1000; exit 1",
                    "many",
                    terminationMessagePolicy="FallbackToLogsOnError",
                ),
            ]
        },
        (FAILED,),
        logs=(),
    ),
)

LOGS = (
    Case(
        "log",
        "both streams, lines that are long or do not end, and ways to read them",
        {
            "containers": [
                container(
                    """
                    echo one; sleep 0.5; echo two >&2; sleep 0.5; echo; printf 'a\\tb'; sleep 0.5
                    printf '%s\\n' "$(yes 0123456789 | head -n 3000 | tr -d '\\n')" > /gate/long
                    echo; cat /gate/long | cut -c 1-20000; printf 'no end'
                    """
                )
            ]
        },
        (SUCCEEDED,),
        logs=(
            Log("main", (("tailLines", "1"),)),
            Log("main", (("tailLines", "0"),)),
            Log("main", (("limitBytes", "12"),)),
            Log("main", (("limitBytes", "30"), ("tailLines", "1"))),
            Log("main", (("sinceSeconds", "1000"), ("limitBytes", "9"))),
            Log("main", (("timestamps", "true"), ("limitBytes", "140"))),
            Log("main", (("previous", "true"),)),
            Log("main", (("sinceTime", "2000-01-01T00:00:00Z"), ("limitBytes", "9"))),
            Log("nobody"),
            Log(),
        ),
    ),
    Case(
        "log-of-two",
        "which container's log is meant must be said",
        {"containers": [container("echo a", "one"), container("echo b", "two")]},
        (SUCCEEDED,),
        logs=(Log("one"), Log("two"), Log("")),
    ),
)

PROBES = (
    Case(
        "ready",
        "a readiness probe makes a container ready, and takes that back",
        {
            "containers": [
                container(
                    SLEEP,
                    readinessProbe={
                        "exec": {"command": script("echo looked; [ -e /gate/ready ]")},
                        "periodSeconds": 1,
                        "timeoutSeconds": 30,
                        "failureThreshold": 1,
                    },
                )
            ]
        },
        (
            Until("running", running()),
            HasEvent("Unhealthy"),
            Make("ready"),
            Until("ready", condition("Ready", "True")),
            Remove("ready"),
            Until("not ready", condition("Ready", "False")),
        ),
        logs=(),
    ),
    Case(
        "startup",
        "a startup probe holds back the others",
        {
            "containers": [
                container(
                    SLEEP,
                    startupProbe={
                        "exec": {"command": script("[ -e /gate/started ]")},
                        "periodSeconds": 1,
                        "timeoutSeconds": 30,
                        "failureThreshold": 100,
                    },
                    livenessProbe={
                        "exec": {"command": script("touch /gate/alive")},
                        "periodSeconds": 1,
                        "timeoutSeconds": 30,
                    },
                )
            ]
        },
        (
            Until("starting", running()),
            HasEvent("Unhealthy"),
            Make("started"),
            Until("started", condition("Ready", "True")),
            HasFile("alive"),
        ),
        logs=(),
    ),
    Case(
        "alive",
        "a liveness probe that fails: SIGTERM, and the container is started again",
        {
            "restartPolicy": "OnFailure",
            "containers": [
                container(
                    f"""
                    trap 'exit 4' TERM; [ -e /gate/second ] && {GO} && exit 0
                    touch /gate/second; {SLEEP}
                    """,
                    livenessProbe={
                        "exec": {
                            "command": script("[ ! -e /gate/bad ] || { rm /gate/bad; exit 1; }")
                        },
                        "periodSeconds": 1,
                        "timeoutSeconds": 30,
                        "failureThreshold": 1,
                    },
                )
            ],
        },
        (
            Until("running", running()),
            HasFile("second"),
            Make("bad"),
            Until("again", all_of(restarted(1), running())),
            HasEvent("Killing"),
            Make("go"),
            SUCCEEDED,
        ),
        logs=(),
    ),
    Case(
        "never-started",
        "a startup probe that fails too often, with Never",
        {
            "containers": [
                container(
                    f"trap 'exit 4' TERM; {SLEEP}",
                    startupProbe={
                        "exec": {"command": ["false"]},
                        "periodSeconds": 1,
                        "timeoutSeconds": 30,
                        "failureThreshold": 2,
                    },
                )
            ]
        },
        (Until("running", running()), FAILED, HasEvent("Killing")),
        logs=(),
    ),
    Case(
        "http-probe",
        "a readiness probe by HTTP: the code decides",
        {
            "containers": [
                container(
                    SLEEP,
                    readinessProbe={
                        "httpGet": {
                            "host": "<server>",
                            "port": "<port>",
                            "path": "/http-probe?a=b",
                            "httpHeaders": [{"name": "X-Own", "value": "yes"}],
                        },
                        "periodSeconds": 1,
                        "timeoutSeconds": 30,
                        "failureThreshold": 1,
                    },
                )
            ]
        },
        (
            Until("running", running()),
            HasEvent("Unhealthy"),
            Answer(302),
            Until("ready", condition("Ready", "True")),
        ),
        logs=(),
    ),
    Case(
        "tcp-probe",
        "a readiness probe by TCP, on a port that nobody listens on",
        {
            "containers": [
                container(
                    SLEEP,
                    ports=[{"name": "closed", "containerPort": 7}],
                    readinessProbe={
                        "tcpSocket": {"port": "closed"},
                        "periodSeconds": 1,
                        "timeoutSeconds": 30,
                        "failureThreshold": 1,
                    },
                )
            ]
        },
        (Until("running", running()), HasEvent("Unhealthy")),
        logs=(),
    ),
    Case(
        "slow-probe",
        "a probe that takes too long has failed",
        {
            "containers": [
                container(
                    SLEEP,
                    readinessProbe={
                        "exec": {"command": ["sleep", "100"]},
                        "periodSeconds": 1,
                        "failureThreshold": 1,
                    },
                )
            ]
        },
        (Until("running", running()), HasEvent("Unhealthy")),
        logs=(),
    ),
)

REST = (
    Case(
        "hooks",
        "postStart and preStop",
        {
            "containers": [
                container(
                    f"trap 'exit 0' TERM; touch /gate/set; {SLEEP}",
                    lifecycle={
                        "postStart": {"exec": {"command": script("touch /gate/post")}},
                        "preStop": {"exec": {"command": script("touch /gate/pre")}},
                    },
                )
            ]
        },
        (Until("running", running()), HasFile("set"), Delete()),
        logs=(),
    ),
    Case(
        "resources",
        "requests and limits in the status",
        {
            "containers": [
                container(
                    GO,
                    resources={
                        "requests": {"cpu": "10m", "memory": "8Mi"},
                        "limits": {"cpu": "100m", "memory": "32Mi"},
                    },
                )
            ]
        },
        (Until("running", running()), Make("go"), SUCCEEDED),
        logs=(),
    ),
    Case(
        "too-large",
        "a pod that asks for more than the node has",
        {"containers": [container("exit 0", resources={"requests": {"cpu": "1000"}})]},
        (ENDED,),
        logs=(),
    ),
    Case(
        "other-node",
        "a pod bound to a node that its selector does not fit",
        {"nodeSelector": {"nobody": "has"}, "containers": [container("exit 0")]},
        (ENDED,),
        logs=(),
    ),
    Case(
        "user",
        "securityContext.runAsUser",
        {"securityContext": {"runAsUser": 1000}, "containers": [container("id -u")]},
        (SUCCEEDED,),
    ),
)

CASES = (*ENDS, *TERMINATION, *INIT, *ENVIRONMENT, *FILES, *LOGS, *PROBES, *REST)
"""All pods; their names are different."""
