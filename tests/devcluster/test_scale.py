"""The subresource ``scale``, without HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json, ObjectKey
from gm.devcluster import scale
from gm.devcluster.api import WriteOptions
from gm.devcluster.info import ResourceInfo
from gm.devcluster.status import StatusError
from tests.devcluster.core import Plain, plain

DEPLOYMENT: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}
KEY = ObjectKey("default", "d")


@pytest.fixture
def core() -> Plain:
    """An API with a deployment."""
    core = plain()
    core.api.create(deployments(core), "default", DEPLOYMENT)
    return core


def deployments(core: Plain) -> ResourceInfo:
    """The resource."""
    info = core.api.registry.lookup("apps", "v1", "deployments")
    assert info is not None
    return info


def body(replicas: Any, **meta: Any) -> Json:
    """A Scale."""
    return {"metadata": {"name": "d", **meta}, "spec": {"replicas": replicas}}


def write(core: Plain, new: Json, options: WriteOptions | None = None) -> Json:
    """Put a Scale in the place of the present one."""
    given = options or WriteOptions()
    shown, _ = scale.write(core.api, deployments(core), KEY, lambda _: new, given, is_patch=False)
    return shown


def test_a_scale_shows_what_is_wanted_what_there_is_and_whom_it_selects(core: Plain) -> None:
    """And metadata that names the object."""
    record = core.api.get(deployments(core), KEY)
    shown = scale.view(deployments(core), record.object)
    assert (shown["kind"], shown["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert shown["spec"] == {"replicas": 2}
    assert shown["status"] == {"replicas": 0, "selector": "a=b"}
    assert shown["metadata"]["uid"] == record.uid


def test_a_write_changes_the_object_itself(core: Plain) -> None:
    """Which then is of a new generation."""
    assert write(core, body(5))["spec"] == {"replicas": 5}
    stored = core.api.get(deployments(core), KEY).object
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (5, 2)


def test_a_dry_run_changes_nothing(core: Plain) -> None:
    """But shows what would be."""
    assert write(core, body(5), WriteOptions(dry_run=True))["spec"] == {"replicas": 5}
    assert core.api.get(deployments(core), KEY).object["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (body(-1), 422),
        (body("x"), 400),
        (body(3, resourceVersion="1"), 409),
        (body(3, uid="other"), 409),
        ({"metadata": {"name": "e"}, "spec": {}}, 400),
    ],
)
def test_a_scale_that_makes_no_sense_is_refused(core: Plain, new: Json, code: int) -> None:
    """And nothing is changed."""
    with pytest.raises(StatusError) as caught:
        write(core, new)
    assert caught.value.code == code
    assert core.api.get(deployments(core), KEY).object["spec"]["replicas"] == 2
