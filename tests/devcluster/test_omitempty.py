"""What Go leaves out, writes as null, or writes in any case."""

from __future__ import annotations

import pytest

from gm.devcluster import omitempty
from gm.devcluster.definitions import definitions
from gm.devcluster.omitempty import is_left_out, is_written_null

POD_SPEC, CONTAINER = "io.k8s.api.core.v1.PodSpec", "io.k8s.api.core.v1.Container"
CONDITION = "io.k8s.api.core.v1.PodCondition"


@pytest.mark.parametrize(
    ("struct", "field", "value", "gone"),
    [
        (POD_SPEC, "nodeName", "", True),
        (POD_SPEC, "runtimeClassName", "", False),  # a pointer
        (POD_SPEC, "hostNetwork", False, True),
        (POD_SPEC, "automountServiceAccountToken", False, False),  # a pointer
        (CONTAINER, "tty", False, True),
        ("io.k8s.api.core.v1.Event", "reportingComponent", "", False),  # required in Go
        ("io.k8s.api.core.v1.ContainerPort", "hostPort", 0, True),
        ("io.k8s.api.core.v1.ContainerPort", "hostPort", 1, False),
        ("io.k8s.api.apps.v1.DeploymentSpec", "replicas", 0, False),  # a pointer
    ],
)
def test_a_zero_value_is_left_out_where_go_s_field_is_no_pointer(
    struct: str, field: str, value: object, gone: bool
) -> None:
    """As a real server answers."""
    assert is_left_out(struct, field, value) is gone


def test_a_time_that_is_not_there_is_null_in_plain_fields() -> None:
    """``lastProbeTime`` is no pointer, ``startTime`` is one."""
    assert is_written_null(CONDITION, "lastProbeTime")
    assert not is_written_null("io.k8s.api.core.v1.PodStatus", "startTime")


@pytest.mark.parametrize("name", ["_POINTERS", "_ALWAYS_WRITTEN", "_PLAIN", "_TIMES"])
def test_every_field_of_the_lists_is_one(name: str) -> None:
    """A list that names what no kind has would hide a slip of the pen."""
    known = {
        f"{'.'.join(struct.split('.')[-3:])}.{field}"
        for struct, schema in definitions().items()
        for field in schema.get("properties") or ()
    }
    listed: frozenset[str] = getattr(omitempty, name)
    assert listed - known == set()
