"""Names of children."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gm.api.worker_names import short_hash, worker_name
from gm.controllers.names import label_value, pod_name, service_name, shortened

OBJECT_NAMES = st.from_regex(r"\A[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?\Z").filter(
    lambda name: ".." not in name and ".-" not in name and "-." not in name
)
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def test_short_names_stay_as_people_wrote_them() -> None:
    """Only what does not fit is changed."""
    assert pod_name("job", "train-0") == "job-train-0"
    assert service_name("job", "aggregation") == "job-aggregation"
    assert label_value("job") == "job"
    assert shortened("a") == "a"


@given(OBJECT_NAMES)
def test_services_have_dns_1035_names(owner: str) -> None:
    """At most 63 characters, beginning with a letter, no dots."""
    name = service_name(owner, "aggregation")
    assert DNS_1035.fullmatch(name), name
    assert len(name) <= 63


@given(OBJECT_NAMES)
def test_pods_have_names_that_are_valid_and_end_in_their_worker(owner: str) -> None:
    """The suffix keeps siblings apart."""
    name = pod_name(owner, "train-12")
    assert len(name) <= 63
    assert name.endswith("-train-12")
    assert SUBDOMAIN.fullmatch(name), name


@given(st.text(max_size=300))
def test_label_values_are_valid(text: str) -> None:
    """Whatever the name is."""
    value = label_value(text)
    assert len(value) <= 63
    assert LABEL.fullmatch(value), value


def test_names_that_become_alike_are_kept_apart() -> None:
    """By a hash of the whole name."""
    assert service_name("a.b", "aggregation") != service_name("a-b", "aggregation")
    assert service_name("1a", "aggregation").startswith("x1a-")
    long = "j" * 80
    assert pod_name(long + "1", "train-0") != pod_name(long + "2", "train-0")
    assert label_value(long + "1") != label_value(long + "2")


def test_hashes_depend_on_the_text_alone() -> None:
    """The same in every process."""
    assert short_hash("x") == short_hash("x")
    assert len(short_hash("x", length=8)) == 8
    assert worker_name("uid", "train", 1) != worker_name("uid", "train", 0)
    assert worker_name("uid", "cloud").startswith("cloudworker-")
