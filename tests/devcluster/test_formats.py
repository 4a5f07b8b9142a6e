"""Which texts have which format; the right answers are a real kube-apiserver's."""

from __future__ import annotations

import pytest

from gm.devcluster.formats import CHECKS, KNOWN
from tests.devcluster.golden.values import FORMATS

CASES = [
    (name, text, is_right)
    for name, (right, wrong) in FORMATS.items()
    if name in CHECKS
    for is_right, texts in ((True, right), (False, wrong))
    for text in texts
]


@pytest.mark.parametrize(("name", "text", "is_right"), CASES)
def test_a_text_has_a_format_or_has_not(name: str, text: str, is_right: bool) -> None:
    """What tests/golden/apiserver.json holds for each of them, without a server."""
    assert CHECKS[name](text) is is_right


def test_formats_that_are_words_for_people_are_known_or_not() -> None:
    """Writing a CRD with another one gives a warning."""
    assert {"password", "isbn"} < KNOWN
    assert "foo" not in KNOWN
    assert CHECKS.keys() < KNOWN
