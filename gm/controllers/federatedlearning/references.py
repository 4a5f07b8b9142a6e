"""What a job refers to, what of it is missing, and what has changed since its pods were made."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import msgspec

from gm.api.core import Pod
from gm.api.sedna import FederatedLearningJob
from gm.api.urls import Remote, StorageUrl, parse_url
from gm.controllers.credentials import s3_credentials
from gm.controllers.federatedlearning.state import WorkerState
from gm.controllers.federatedlearning.workers import Worker
from gm.controllers.federatedlearning.world import World
from gm.errors import InvalidSpec

__all__ = [
    "Missing",
    "Names",
    "changed_references",
    "missing_references",
    "names_of",
    "wanted_secrets",
]


class Names(msgspec.Struct, frozen=True):
    """Names of the objects that a job's spec names itself."""

    models: frozenset[str]
    datasets: frozenset[str]


class Missing(msgspec.Struct, frozen=True):
    """A reason for the condition, and a message that names all that is missing."""

    reason: str
    message: str


def names_of(job: FederatedLearningJob) -> Names:
    """The models and datasets of ``job``."""
    spec = job.spec
    models = [spec.aggregation_worker.model.name]
    if spec.pretrained_model:
        models.append(spec.pretrained_model.name)
    datasets = [worker.dataset.name for worker in spec.training_workers]
    return Names(frozenset(filter(None, models)), frozenset(filter(None, datasets)))


def wanted_secrets(world: World, workers: Sequence[Worker]) -> dict[str, str]:
    """Secrets that pods of ``workers`` need, each with who names it; of what is known so far."""
    names, job = names_of(world.job.view), world.job.view
    wanted: dict[str, str] = {}
    for name in sorted(names.models):
        if (model := world.models.get(name)) and model.spec.credential_name:
            wanted.setdefault(model.spec.credential_name, f"Model {name}")
    for name in sorted(_datasets(workers)):
        if (dataset := world.datasets.get(name)) and dataset.spec.credential_name:
            wanted.setdefault(dataset.spec.credential_name, f"Dataset {name}")
    s3 = job.spec.transmitter.s3 if job.spec.transmitter else None
    if s3 and s3.credential_name:
        wanted.setdefault(s3.credential_name, "the job's transmitter")
    return wanted


def missing_references(world: World, workers: Sequence[Worker]) -> Missing | None:
    """What keeps pods of ``workers`` from being made; None when nothing is missing."""
    names = names_of(world.job.view)
    missing = [
        *(("ModelNotFound", f"Model {n}") for n in sorted(names.models - world.models.keys())),
        *(
            ("DatasetNotFound", f"Dataset {n}")
            for n in sorted(_datasets(workers) - world.datasets.keys())
        ),
        *_missing_nodes(world, workers),
        *(
            ("SecretNotFound", f"Secret {name} (named by {who})")
            for name, who in sorted(wanted_secrets(world, workers).items())
            if name in world.secrets and world.secrets[name] is None
        ),
    ]
    if missing:
        return Missing(missing[0][0], _not_found(missing, world.job.key.namespace))
    return _invalid_secret(world, workers)


def _datasets(workers: Sequence[Worker]) -> set[str]:
    return {worker.dataset for worker in workers if worker.dataset}


def _not_found(missing: list[tuple[str, str]], namespace: str) -> str:
    nodes = [what for reason, what in missing if reason == "NodeNotFound"]
    others = [what for reason, what in missing if reason != "NodeNotFound"]
    parts = [f"not found in namespace {namespace}: {', '.join(others)}"] if others else []
    parts += [f"not found in the cluster: {', '.join(nodes)}"] if nodes else []
    end = "it is there" if len(missing) == 1 else "they are there"
    return f"{'; '.join(parts)}; the job starts when {end}"


def _missing_nodes(world: World, workers: Sequence[Worker]) -> list[tuple[str, str]]:
    if world.nodes is None:
        return []
    named = sorted({worker.node for worker in workers if worker.node})
    return [("NodeNotFound", f"Node {name}") for name in named if name not in world.nodes]


def _invalid_secret(world: World, workers: Sequence[Worker]) -> Missing | None:
    for name in sorted(wanted_secrets(world, workers)):
        secret = world.secrets.get(name)
        if secret is None:
            continue
        try:
            s3_credentials(secret, inline=world.settings.inline_credentials)
        except InvalidSpec as exc:
            return Missing(exc.reason, exc.message)
    return None


def changed_references(world: World, states: Sequence[WorkerState]) -> list[str]:
    """What is not any more as the pods that run were made with, in words; each once."""
    changes: dict[str, None] = {}
    place = functools.cache(_place)  # all workers of a job have the same model
    for state in states:
        if state.pod is None or state.has_ended or state.is_outdated:
            continue
        for kind, name, variable, url in _urls(world, state.worker):
            if url is None:
                changes[f"{kind} {name} was deleted"] = None
            elif not _was_given(state.pod.view, variable, place(url)):
                changes[f"{kind} {name} has another url"] = None
        if state.node and world.nodes is not None and state.node not in world.nodes:
            changes[f"Node {state.node} was deleted"] = None
    return list(changes)


def _urls(world: World, worker: Worker) -> Iterator[tuple[str, str, str, str | None]]:
    """Kind, name, variable and URL of what ``worker`` is told; no URL where it is gone."""
    spec = world.job.view.spec
    models = [(spec.aggregation_worker.model.name, "MODEL_URL")]
    if spec.pretrained_model and spec.pretrained_model.name:
        models.append((spec.pretrained_model.name, "PRETRAINED_MODEL_URL"))
    for name, variable in models:
        model = world.models.get(name)
        yield "Model", name, variable, model.spec.url if model else None
    if worker.dataset:
        dataset = world.datasets.get(worker.dataset)
        url = dataset.spec.url if dataset else None
        yield "Dataset", worker.dataset, "TRAIN_DATASET_URL", url


def _place(url: str) -> StorageUrl | None:
    try:
        return parse_url(url)
    except InvalidSpec:
        return None


def _was_given(pod: Pod, variable: str, place: StorageUrl | None) -> bool:
    """Whether ``pod`` was made for data at ``place``; True where it does not tell."""
    told = (c.env_value(variable) for c in pod.spec.containers or ())
    path = next((value for value in told if value is not None), None)
    if path is None:
        return True
    if place is None or place.container_path != path:
        return False
    downloads = [c.args for c in pod.spec.init_containers or () if c.args]
    if not isinstance(place, Remote) or not downloads:
        return True
    return any(place.url in args for args in downloads)
