"""What a container executes."""

from __future__ import annotations

import pytest

from gm.edge_stub.runner import DEFAULT_IMAGES
from gm.edge_stub.runner.images import ImageTable, UnknownImage

TABLE = ImageTable(
    {
        "me/train:v1": ("python", "train.py"),
        "busybox": ("sh",),
        "host:5000/x": ("x",),
        "localhost/y": ("y",),
    }
)


def test_command_and_args_are_taken_as_given() -> None:
    """The image does not matter then."""
    container = {"image": "any", "command": ["a"], "args": ["b"]}
    assert TABLE.command_line(container) == ["a", "b"]
    assert TABLE.command_line({"image": "me/train:v1", "command": ["a"]}) == ["a"]


def test_an_image_without_command_is_looked_up_and_args_are_added() -> None:
    """As args go to an image's entrypoint."""
    assert TABLE.command_line({"image": "me/train:v1"}) == ["python", "train.py"]
    container = {"image": "me/train:v1", "args": ["--fast"]}
    assert TABLE.command_line(container) == ["python", "train.py", "--fast"]


@pytest.mark.parametrize(
    ("image", "argv"),
    [
        ("docker.io/me/train:v1", ["python", "train.py"]),
        ("busybox:latest", ["sh"]),
        ("docker.io/library/busybox", ["sh"]),
        ("host:5000/x:latest", ["x"]),
        ("localhost/y:latest", ["y"]),
    ],
)
def test_an_image_has_several_names(image: str, argv: list[str]) -> None:
    """Registry and tag have defaults."""
    assert TABLE.command_line({"image": image}) == argv


@pytest.mark.parametrize("image", ["me/train:v2", "me/train@sha256:0", "nobody/knows", ""])
def test_an_unknown_image_says_how_to_add_it(image: str) -> None:
    """Another tag is another image."""
    with pytest.raises(UnknownImage, match=f"--image '{image}=PROGRAM ARG...'"):
        TABLE.command_line({"image": image})


def test_the_examples_images_are_known() -> None:
    """So that the example's job needs no command."""
    table = ImageTable(DEFAULT_IMAGES)
    argv = table.command_line({"image": "sedna.io/example-fl-train:v1"})
    assert argv == ["python", "-P", "-m", "gm.examples.federated.train"]
    argv = table.command_line({"image": "sedna.io/example-fl-aggregation:v1"})
    assert argv == ["python", "-P", "-m", "gm.examples.federated.aggregate"]
