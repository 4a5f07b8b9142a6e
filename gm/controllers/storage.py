"""How the URLs of models and data become volumes, mounts, downloads and environment of a pod."""

from __future__ import annotations

import msgspec

from gm.api.meta import Json
from gm.api.urls import DATA_PATH_PREFIX, DOWNLOAD_PREFIX, HostPath, Remote, parse_url
from gm.api.worker_names import short_hash
from gm.controllers.credentials import S3Credentials

__all__ = ["Location", "Storage", "apply_storage"]

_INITIALIZER = "storage-initializer"
_DOWNLOADS_VOLUME = "sedna-storage-initializer"


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """URLs that a worker is told in environment variable ``variable``.

    ``source`` is where they were written, for messages; without it, the variable. With ``create``
    the directory of a host path is made where it does not exist: a kubelet would otherwise leave
    the worker in ContainerCreating until somebody makes it.
    """

    variable: str
    urls: tuple[str, ...]
    source: str = ""
    create: bool = False
    credentials: S3Credentials | None = None


class Storage(msgspec.Struct, frozen=True):
    """All that the ``locations`` of one worker come to."""

    env: dict[str, str]
    directories: dict[HostPath, bool]  # the value: make it if it is missing
    downloads: dict[str, str]  # URL -> directory
    credentials: S3Credentials | None

    @classmethod
    def of(cls, locations: tuple[Location, ...], *, extra: S3Credentials | None = None) -> Storage:
        """What ``locations`` come to; ``extra`` are credentials that belong to none of them.

        A pod has one set of S3 variables: the credentials that come last win.

        Raises: InvalidSpec for a URL that nobody can read.
        """
        env: dict[str, str] = {}
        directories: dict[HostPath, bool] = {}
        downloads: dict[str, str] = {}
        credentials = None
        for location in locations:
            paths = []
            for url in location.urls:
                match parse_url(url, field=location.source or location.variable):
                    case HostPath() as host:
                        place = HostPath(host.directory, host.directory)  # files share a mount
                        directories[place] = directories.get(place, False) or location.create
                        paths.append(host.container_path)
                    case Remote() as remote:
                        downloads[remote.url] = remote.download_directory
                        paths.append(remote.container_path)
            env[location.variable] = ";".join(paths)
            credentials = location.credentials or credentials
        if directories:
            env["DATA_PATH_PREFIX"] = DATA_PATH_PREFIX
        return cls(env, directories, downloads, extra or credentials)


def apply_storage(spec: Json, storage: Storage, *, initializer_image: str) -> None:
    """Add volumes, mounts and the download container to pod ``spec``, in place.

    Volumes and mounts of the user's template are kept and never shadowed: where the user mounts
    something at a path of ours or above it, that container keeps the user's.
    """
    users = [_mount_paths(container) for container in spec["containers"]]  # before ours come

    def mount(path: str, body: Json) -> None:
        for container, taken in zip(spec["containers"], users, strict=True):
            if not any(_with_slash(path).startswith(other) for other in taken):
                mounts = list(container.get("volumeMounts") or [])
                container["volumeMounts"] = [*mounts, {"mountPath": path, **body}]

    for place, create in storage.directories.items():
        kind = "DirectoryOrCreate" if create else "Directory"
        name = f"host-{short_hash(place.directory, length=10)}"
        source = {"hostPath": {"path": place.directory, "type": kind}}
        mount(place.mount_path, {"name": _add_volume(spec, name, source)})
    if storage.downloads:
        volume = _add_volume(spec, _DOWNLOADS_VOLUME, {"emptyDir": {}})
        mount(DOWNLOAD_PREFIX, {"name": volume, "readOnly": True})
        _add_initializer(spec, storage, image=initializer_image, volume=volume)


def _add_initializer(spec: Json, storage: Storage, *, image: str, volume: str) -> None:
    others = spec.get("initContainers") or []
    taken = {container.get("name") for container in [*others, *spec["containers"]]}
    credentials = storage.credentials.env() if storage.credentials else []
    initializer = {
        "name": _unused(_INITIALIZER, taken),
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [text for pair in storage.downloads.items() for text in pair],
        "env": [*credentials, {"name": "INDIRECT_URL_MARK", "value": "@"}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": volume, "mountPath": DOWNLOAD_PREFIX}],
    }
    # first: the user's own init containers may want what it brings
    spec["initContainers"] = [initializer, *others]


def _add_volume(spec: Json, name: str, source: Json) -> str:
    volumes = spec["volumes"] = list(spec.get("volumes") or [])
    name = _unused(name, {volume.get("name") for volume in volumes})
    volumes.append({"name": name, **source})
    return name


def _mount_paths(container: Json) -> list[str]:
    paths = [mount.get("mountPath") for mount in container.get("volumeMounts") or []]
    return [_with_slash(path) for path in paths if path]


def _with_slash(path: str) -> str:
    return path.rstrip("/") + "/"


def _unused(name: str, taken: set[str | None]) -> str:
    number, candidate = 2, name
    while candidate in taken:
        number, candidate = number + 1, f"{name}-{number}"
    return candidate
