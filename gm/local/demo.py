"""``gm demo``: one federated job, from submission to the trained model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import msgspec

from gm.api import FederatedLearningJob, Model, validate_job
from gm.api.meta import Json
from gm.errors import ConfigError, GmError
from gm.kube import Client
from gm.local.apply import apply, load_manifests
from gm.local.directory import StateDirectory
from gm.local.example import example_manifest, write_example_data
from gm.local.guest import relocate, visiting
from gm.local.network import LoopbackNetwork
from gm.local.snapshot import Snapshot, accuracies
from gm.local.story import Story
from gm.local.system import DEFAULT_NODES, System, running_guest, running_system
from gm.local.up import API_PORT
from gm.local.view import View

__all__ = ["DemoFailed", "DemoSettings", "demo"]

NAMESPACE = "default"


class DemoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ``gm demo`` was asked for. ``timeout_seconds`` bounds the job, not the start.

    ``manifest`` is submitted instead of the example's own; its data is the example's. With
    ``kubeconfig`` the job runs in that cluster instead of an embedded one.
    """

    directory: Path = Path("gm-demo")
    kubeconfig: Path | None = None
    manifest: Path | None = None
    timeout_seconds: float = 300


class DemoFailed(GmError):
    """The job did not get to its model; the message says why and where the logs are."""


async def demo(settings: DemoSettings, view: View) -> bool:
    """Run the example job to its model; True, since whatever else happens is raised.

    Raises: ConfigError; DemoFailed; ProgramDied, the last two within an ExceptionGroup.
    """
    manifest = settings.manifest or example_manifest()
    objects = load_manifests(manifest)
    job = next((o for o in objects if o["kind"] == "FederatedLearningJob"), None)
    if job is None:
        raise ConfigError(f"{manifest} holds no FederatedLearningJob")
    check(job, manifest)
    if settings.kubeconfig is not None:
        await _look_at(settings.kubeconfig)
    with (
        StateDirectory(settings.directory, fresh=True) as directory,
        LoopbackNetwork() as network,
    ):
        view.say(f"writing the nodes' data to {directory.nodes}")
        await write_example_data(directory.nodes)
        task = _Task(manifest, objects, job, settings, view)
        if settings.kubeconfig is None:
            await _at_home(task, directory, network)
        else:
            await _as_guest(task, settings.kubeconfig, directory, network)
    return True


class _Task(NamedTuple):
    """What is to be done, wherever it is done."""

    manifest: Path
    objects: list[Json]
    job: Json
    settings: DemoSettings
    view: View

    async def run(self, system: System) -> None:
        """Submit the job and see it through. Raises: DemoFailed."""
        self.view.say(f"kubectl apply -f {self.manifest}")
        ended = await _train(system, self)
        model = _judge(ended, model_file(system, self.objects, self.job), self, system)
        for line in summary(ended, model):
            self.view.say(line)


async def _at_home(task: _Task, directory: StateDirectory, network: LoopbackNetwork) -> None:
    """In a cluster made for it."""
    task.view.say(f"starting an API server, GM and the nodes {', '.join(DEFAULT_NODES)}")
    async with running_system(
        directory, network, nodes=DEFAULT_NODES, port=API_PORT, say=task.view.say
    ) as system:
        await task.run(system)


async def _look_at(kubeconfig: Path) -> None:
    """Raises: ConfigError, ApiUnreachable if the cluster can not be asked: before any work."""
    async with await _connect(kubeconfig) as client:
        await client.raw("GET", "/version")


async def _connect(kubeconfig: Path) -> Client:
    return await Client.connect(
        kubeconfig=str(kubeconfig), named_by="--kubeconfig", user_agent="gm-demo"
    )


async def _as_guest(
    task: _Task, kubeconfig: Path, directory: StateDirectory, network: LoopbackNetwork
) -> None:
    """In somebody's cluster, in a namespace and with nodes of its own; nothing stays there."""
    say = task.view.say
    async with (
        await _connect(kubeconfig) as client,
        visiting(client, DEFAULT_NODES, say=say) as visit,
    ):
        for name, own in visit.nodes.items():
            if (directory.nodes / name).exists():
                (directory.nodes / name).rename(directory.nodes / own)
        say(f"starting GM and the nodes {', '.join(visit.nodes.values())}")
        objects = relocate(task.objects, namespace=visit.namespace, nodes=visit.nodes)
        job = next(o for o in objects if o["kind"] == "FederatedLearningJob")
        async with (
            running_guest(
                directory,
                network,
                kubeconfig=kubeconfig,
                namespace=visit.namespace,
                nodes=tuple(visit.nodes.values()),
                say=say,
            ) as system,
            visit.staying(),
        ):
            await task._replace(objects=objects, job=job).run(system)


async def _train(system: System, task: _Task) -> Snapshot:
    namespace, view = system.namespace or NAMESPACE, task.view
    async with await Client.connect(kubeconfig=str(system.kubeconfig)) as client:
        story = Story(client, namespace=namespace, job=task.job, nodes=system.nodes)
        async with story.following():
            view.show(story.snapshot())
            for item in task.objects:
                view.say(await apply(client, item, namespace=namespace))
            return await _watch(story, task.settings, view)


async def _watch(story: Story, settings: DemoSettings, view: View) -> Snapshot:
    """Show the job until it ends or time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.timeout_seconds
    while True:
        snapshot = story.snapshot()
        view.show(snapshot)
        phase = snapshot.job.phase if snapshot.job else ""
        if phase in ("Succeeded", "Failed") or loop.time() >= deadline:
            return snapshot
        await story.wait_changed(timeout_seconds=deadline - loop.time())


def check(job: Json, manifest: Path) -> None:
    """Raises: ConfigError if the job can not be read, or the demo could not tell its end."""
    try:
        view = msgspec.convert(job, FederatedLearningJob)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{manifest}: FederatedLearningJob: {exc}") from None
    for problem in validate_job(view):
        raise ConfigError(f"{manifest}: FederatedLearningJob: {problem}")
    if not _node(view):
        raise ConfigError(
            f"{manifest}: the aggregation worker's template names no nodeName; the demo looks for "
            "the model on that node"
        )


def _node(job: FederatedLearningJob) -> str:
    worker = job.spec.aggregation_worker
    spec = (worker.template.spec if worker.template else None) or {}
    return str(spec.get("nodeName") or worker.node_name or "")


def model_file(system: System, objects: list[Json], job: Json) -> Path | None:
    """Where the job's final model lies: its Model's URL under the aggregator's node's root.

    None if the manifest does not hold the Model.
    """
    view = msgspec.convert(job, FederatedLearningJob)
    name = view.spec.aggregation_worker.model.name
    models = (msgspec.convert(o, Model) for o in objects if o["kind"] == "Model")
    url = next((m.spec.url for m in models if m.metadata.name == name), None)
    return None if url is None else system.directory.nodes / _node(view) / url.lstrip("/")


def _judge(ended: Snapshot, model: Path | None, task: _Task, system: System) -> Path:
    job, logs = ended.job, f"logs are in {system.directory.logs}"
    if job is None or job.phase not in ("Succeeded", "Failed"):
        seconds = task.settings.timeout_seconds
        phase = job.phase if job else "missing"
        why = f": {job.problem}" if job and job.problem else ""
        raise DemoFailed(f"gave up after {seconds:g} s: the job is {phase}{why}; {logs}")
    if job.phase == "Failed":
        raise DemoFailed(f"the job failed: {job.problem or 'no reason given'}; {logs}")
    if model is None or not model.is_file():
        where = model or "any place that the manifest names"
        raise DemoFailed(f"the job succeeded but left no model at {where}; {logs}")
    return model


def summary(ended: Snapshot, model: Path) -> list[str]:
    """The last lines: how good the model is, and where it lies."""
    shown = ", ".join(f"{name} {value:.3f}" for name, value in accuracies(ended))
    return [f"accuracy on data that nobody trained on: {shown}", f"the model: {model}"]
