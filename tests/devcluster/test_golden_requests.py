"""Each request of a table, to a real kube-apiserver and to ours: the same answer, word for word.

tests/golden/apiserver.json holds the real one's answers, so that this means something where there
is none; where there is, its answers are compared with the file as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gm.api.meta import Json
from tests.cluster.cluster import Cluster
from tests.devcluster.asking import ask
from tests.devcluster.golden import STEPS
from tests.devcluster.golden.accepted import ACCEPTED

ROOT = Path(__file__).parents[2]
RECORDED: dict[str, Json] = json.loads((ROOT / "tests" / "golden" / "apiserver.json").read_text())[
    "answers"
]
DOCUMENT = " ".join((ROOT / "docs" / "devcluster.md").read_text().split())

_answers: dict[str, dict[str, Json]] = {}


@pytest.fixture
async def answers(cluster: Cluster) -> dict[str, Json]:
    """The answers of one server; it is asked once for all tests."""
    if cluster.kind not in _answers:
        async with cluster.client() as client:
            _answers[cluster.kind] = await ask(client, cluster.namespace)
    return _answers[cluster.kind]


def put(answer: Json, place: str, value: Any) -> None:
    """Set, or take out, what stands at a dotted place."""
    *parents, last = place.split(".")
    here: Any = answer
    for part in parents:
        here = here[int(part)] if isinstance(here, list) else here[part]
    if value is None:
        del here[last]
    else:
        here[last] = value


def expected(name: str, kind: str) -> Json:
    """What a server should answer."""
    answer: Json = json.loads(json.dumps(RECORDED[name]))
    if kind == "embedded" and name in ACCEPTED:
        for place, value in ACCEPTED[name].instead.items():
            put(answer, place, value)
    return answer


@pytest.mark.parametrize("name", [step.name for step in STEPS])
async def test_a_request_is_answered_as_by_a_real_server(
    cluster: Cluster, answers: dict[str, Json], name: str
) -> None:
    """Status, content type, warning and body, after what differs from run to run is taken out."""
    assert answers[name] == expected(name, cluster.kind)


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_accepted_difference_is_one_and_is_written_down(name: str) -> None:
    """The list holds nothing that has been fixed, and the document says why of each."""
    assert expected(name, "embedded") != RECORDED[name]
    assert ACCEPTED[name].line in DOCUMENT


def test_every_request_has_a_recorded_answer() -> None:
    """Whoever adds a request records the real server's answer."""
    assert list(RECORDED) == [step.name for step in STEPS]
