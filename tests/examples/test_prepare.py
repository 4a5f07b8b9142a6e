"""The data: uneven, disjoint, the same each time, and where job.yaml says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from gm.examples.federated import prepare as module
from gm.examples.federated.prepare import DATASET_URL, HELDOUT_URL, MODEL_URL, main, prepare


def rows(path: Path) -> list[bytes]:
    """The samples of a file, each as bytes."""
    with np.load(path) as arrays:
        return [x.tobytes() + bytes([y]) for x, y in zip(arrays["x"], arrays["y"], strict=True)]


def labels(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The labels in a file."""
    with np.load(path) as arrays:
        return np.asarray(arrays["y"])


def test_each_edge_sees_mostly_its_own_digits(tmp_path: Path) -> None:
    """Some of the others, but few."""
    assert prepare(tmp_path) == {"edge1": 676, "edge2": 671}
    for node, own in (("edge1", range(5)), ("edge2", range(5, 10))):
        found = labels(tmp_path / node / DATASET_URL[1:])
        counts = np.bincount(found, minlength=10)
        assert counts.min() >= 1
        assert counts[own].sum() > 0.97 * len(found)


def test_no_sample_is_in_two_files_and_heldout_is_the_same_everywhere(tmp_path: Path) -> None:
    """Held-out samples are held out from everybody."""
    prepare(tmp_path)
    first, second = (rows(tmp_path / node / DATASET_URL[1:]) for node in ("edge1", "edge2"))
    heldout = rows(tmp_path / "edge1" / HELDOUT_URL[1:])
    assert heldout == rows(tmp_path / "edge2" / HELDOUT_URL[1:])
    assert len(first) + len(second) + len(heldout) == 1797
    everything = [*first, *second, *heldout]
    assert len(set(everything)) == len(everything)
    assert set(labels(tmp_path / "edge1" / HELDOUT_URL[1:])) == set(range(10))


def test_files_are_the_same_each_time_and_may_be_written_again(tmp_path: Path) -> None:
    """Also by somebody else, elsewhere."""
    prepare(tmp_path / "a")
    prepare(tmp_path / "a")
    prepare(tmp_path / "b")
    names = [p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file()]
    assert len(names) == 4
    for name in names:
        assert rows(tmp_path / "a" / name) == rows(tmp_path / "b" / name)


def test_job_yaml_names_these_files_and_nodes() -> None:
    """The manifest and the data belong together."""
    path = Path(__file__).parents[2] / "examples/federated-learning/job.yaml"
    first, second, model, job = yaml.safe_load_all(path.read_text())
    for dataset, node in ((first, "edge1"), (second, "edge2")):
        assert dataset["spec"] == {"url": DATASET_URL, "format": "npz", "nodeName": node}
    assert model["spec"]["url"] == MODEL_URL
    workers = [job["spec"]["aggregationWorker"], *job["spec"]["trainingWorkers"]]
    assert job["spec"]["aggregationWorker"]["model"]["name"] == model["metadata"]["name"]
    nodes = [worker["template"]["spec"]["nodeName"] for worker in workers]
    assert nodes == ["cloud", "edge1", "edge2"]
    for worker in workers:
        spec = worker["template"]["spec"]
        assert spec["tolerations"] == [
            {"key": "sedna.io/runner", "operator": "Exists", "effect": "NoSchedule"}
        ]
        environ = {entry["name"] for entry in spec["containers"][0]["env"]}
        assert "POD_IP" in environ


def test_command_tells_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each node."""
    assert main([str(tmp_path), "--node", "a", "--node", "b", "--node", "c"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"{tmp_path}/{n}" for n in "abc"]
    assert (tmp_path / "cloud").is_dir()


def test_command_refuses_what_can_not_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line each, no traceback."""
    for nodes in (["a", "a"], ["cloud"], ["a/b"], [f"n{i}" for i in range(11)]):
        with pytest.raises(SystemExit):
            main([str(tmp_path), *(f"--node={node}" for node in nodes)])
        assert "--node: " in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.startswith("error: can not write ")
    monkeypatch.setattr(module, "missing_packages", lambda: ["numpy", "scikit-learn"])
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    wanted = "numpy and scikit-learn are needed: pip install numpy scikit-learn"
    assert wanted in capsys.readouterr().err
