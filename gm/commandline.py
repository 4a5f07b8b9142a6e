"""What can be said on the command line ``gm``: commands, flags, help with examples."""

from __future__ import annotations

import argparse
from pathlib import Path

from gm import __version__

__all__ = ["parser"]


def parser() -> argparse.ArgumentParser:
    """The command line ``gm``; ``command`` of the result names what to run."""
    parser = argparse.ArgumentParser(
        prog="gm",
        description="A Global Manager for edge AI on Kubernetes.",
        epilog="Start with `gm demo`, or `gm up --example` and kubectl.",
    )
    parser.add_argument("--version", action="version", version=f"gm {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, summary: str, example: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog="examples:\n" + example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(command=name)
        return sub

    demo = command(
        "demo",
        "train one federated model on this machine and show it",
        "  gm demo\n  gm demo | cat        # plain lines\n"
        "  gm demo --kubeconfig ~/.kube/config   # in that cluster; nothing stays there",
    )
    demo.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="run it in this cluster (its current context), in a namespace and with nodes of its "
        "own that are processes of this machine",
    )
    demo.add_argument(
        "--dir",
        type=Path,
        default=Path("gm-demo"),
        help="where model and logs stay; emptied at start (%(default)s)",
    )
    demo.add_argument("--job", type=Path, help="submit this file instead of the example's")
    demo.add_argument(
        "--timeout", type=float, default=300, metavar="SECONDS", help="give up after (%(default)s)"
    )

    up = command(
        "up",
        "run API server, GM and nodes on this machine until Ctrl-C",
        "  gm up --example\n  gm up --node cloud --node edge1 --dir /tmp/two\n"
        "  gm up --state ./kept        # goes on where it ended, also after kill -9",
    )
    place = up.add_mutually_exclusive_group()
    place.add_argument(
        "--dir",
        type=Path,
        default=Path("gm-up"),
        help="logs, kubeconfig, nodes; emptied at start (%(default)s)",
    )
    place.add_argument(
        "--state", type=Path, metavar="DIR", help="the same, kept, and the objects with it"
    )
    up.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NAME",
        help="a node, once for each (cloud, edge1, edge2)",
    )
    up.add_argument("--example", action="store_true", help="write the example's data")

    run = command(
        "run",
        "run GM against a cluster",
        "  gm run --config gm.yaml\n  GM_WEBSOCKET_PORT=9001 gm run --kubeconfig ~/.kube/config",
    )
    run.add_argument("--config", help="configuration file, as Sedna's")
    run.add_argument("--kubeconfig", type=Path, help="overrides kubeConfig of the file")

    edge = command(
        "edge",
        "run one edge node's Local Controller, and with --runner its pods",
        "  gm edge --name edge1 --gm ws://gm.example:9000 --root / --state /var/lib/gm-edge\n"
        "  gm edge --name edge1 --gm ws://127.0.0.1:9000 --runner --address 127.0.0.1 \\\n"
        "      --image 'me/train:v1=python train.py'\n"
        "  gm edge status --state /var/lib/gm-edge",
    )
    edge.add_argument("--name", help="node name (required)")
    edge.add_argument("--gm", metavar="URL", help="ws://HOST:PORT or wss://... of GM (required)")
    edge.add_argument(
        "--root", type=Path, default=Path("/"), help="the node's file system (%(default)s)"
    )
    edge.add_argument(
        "--state", type=Path, default=Path("gm-edge"), help="its own files (%(default)s)"
    )
    edge.add_argument(
        "--listen",
        default="127.0.0.1:9100",
        metavar="ADDRESS:PORT",
        help="worker API (%(default)s)",
    )
    edge.add_argument(
        "--max-backoff",
        type=float,
        default=60,
        metavar="SECONDS",
        help="longest wait between attempts to reach GM (%(default)s)",
    )
    edge.add_argument("--runner", action="store_true", help="play the node: run its pods")
    edge.add_argument("--kubeconfig", type=Path, help="with --runner; else KUBECONFIG")
    edge.add_argument(
        "--address", default="127.0.0.1", help="the node's address, with --runner (%(default)s)"
    )
    edge.add_argument("--any-pod", action="store_true", help="run pods of any owner")
    edge.add_argument("--namespace", default="", help="run pods of this namespace only")
    edge.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="NAME=ARGV",
        help="what to run for an image whose container names no command",
    )
    _credential_arguments(edge)
    _log_arguments(edge)
    _edge_status_command(edge)

    apiserver = command(
        "apiserver",
        "run the embedded Kubernetes API server alone",
        "  gm apiserver --dir /tmp/api &\n  export KUBECONFIG=/tmp/api/kubeconfig",
    )
    apiserver.add_argument(
        "--dir", type=Path, help="CA, token, kubeconfig (that of --state, or gm-apiserver)"
    )
    apiserver.add_argument(
        "--state", type=Path, metavar="DIR", help="keep the objects there; else in memory"
    )
    apiserver.add_argument(
        "--address", default="127.0.0.1", help="a loopback address (%(default)s)"
    )
    apiserver.add_argument(
        "--port", type=int, default=6443, help="0 takes a free one (%(default)s)"
    )
    _log_arguments(apiserver)

    pki = command(
        "pki",
        "make a CA, and certificates for GM and its nodes, to try out TLS",
        "  gm pki gm-pki --server gm.example --node edge1 --node edge2\n"
        "  gm pki gm-pki --node edge3        # one more, of the same CA",
    )
    pki.add_argument("dir", type=Path, metavar="DIR", help="where they lie; nothing is overwritten")
    pki.add_argument(
        "--node", action="append", default=[], metavar="NAME", help="a node, once for each"
    )
    pki.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name or IP address of GM, beside this machine's loopback",
    )
    pki.add_argument("--days", type=int, default=365, help="how long they are valid (%(default)s)")

    storage = command(
        "storage-init",
        "download s3:// and http(s):// URLs to directories, as the init container does",
        "  gm storage-init s3://bucket/model/ /downloads/bucket/\n"
        "  gm storage-init https://data.example/train.csv /data s3://bucket/index.txt @/data\n"
        "environment: S3_ENDPOINT_URL, ACCESS_KEY_ID, SECRET_ACCESS_KEY, AWS_REGION,\n"
        "  INDIRECT_URL_MARK (@), SSL_CERT_FILE; see docs/storage.md",
    )
    storage.add_argument(
        "pair", nargs="+", metavar="URL DIR", help="pairs; @ before DIR: URL names a list of files"
    )

    command("crds", "print the CustomResourceDefinitions", "  gm crds | kubectl apply -f -")
    command("version", "print the version", "  gm version")
    return parser


def _edge_status_command(edge: argparse.ArgumentParser) -> None:
    status = edge.add_subparsers(metavar="").add_parser(
        "status",
        help="show link, objects and waiting reports of a Local Controller",
        description="Show link, objects and waiting reports of a Local Controller.",
        epilog="examples:\n  gm edge status --state /var/lib/gm-edge\n"
        "  gm edge status --state gm-up/state/edge1 --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    status.set_defaults(command="edge status")
    status.add_argument(
        "--state",
        type=Path,
        default=Path("gm-edge"),
        help="the Local Controller's own files (%(default)s)",
    )
    status.add_argument("--json", action="store_true", help="for programs")


def _credential_arguments(parser: argparse.ArgumentParser) -> None:
    for flag, text in (
        ("--token-file", "holds the token that says who this node is"),
        ("--ca", "CA certificates to check GM's against; else the system's"),
        ("--cert", "this node's certificate, with CN system:node:NAME"),
        ("--key", "its private key, unless it lies in the same file"),
    ):
        parser.add_argument(flag, type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--server-name",
        default="",
        metavar="NAME",
        help="the name in GM's certificate; else the host in --gm",
    )


def _log_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log-format", choices=("auto", "human", "json"), default="auto")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info"
    )
