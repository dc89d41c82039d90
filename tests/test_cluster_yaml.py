"""The cluster files are what Ray's launcher and KubeRay take; nothing is brought up."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parent.parent
CLUSTERS = {
    path: yaml.safe_load((ROOT / path).read_text()) for path in ("cluster.yaml", "cluster/boxes.yaml")
}
RAYJOB = yaml.safe_load((ROOT / "cluster" / "rayjob.yaml").read_text())
FIELDS = json.loads((Path(__file__).parent / "rayjob.fields.json").read_text())
DOCKERFILE = (ROOT / "cluster" / "Dockerfile").read_text()

pytestmark = pytest.mark.filterwarnings("ignore")


def prepared(path: str) -> dict[str, Any]:
    """With all that Ray fills in where nothing is said."""
    from ray.autoscaler._private.util import prepare_config

    found: dict[str, Any] = prepare_config(CLUSTERS[path])
    return found


@pytest.mark.parametrize("path", CLUSTERS)
def test_rays_launcher_accepts_it(path: str) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepared(path))
    with pytest.raises(Exception, match="initial_workers"):
        validate_config(prepare_config(CLUSTERS[path] | {"initial_workers": 1}))


@pytest.mark.parametrize("path", CLUSTERS)
def test_the_ray_that_is_started_is_the_one_that_was_installed_and_jobs_find_its_python(path: str) -> None:
    config = prepared(path)
    assert config["head_setup_commands"] == config["setup_commands"]
    for kind in ("head", "worker"):
        starts = config[f"{kind}_start_ray_commands"]
        rays = {word for command in starts for word in command.split() if word.endswith("ray")}
        assert len(rays) == 1
        [installed] = {str(Path(ray).parent) for ray in rays}
        assert installed.endswith("batchyard/.venv/bin"), "not the machine image's ray, if it has one"
        assert f"export PATH={installed}:$PATH" in starts[-1]


@pytest.mark.parametrize("path", CLUSTERS)
def test_a_cluster_asks_for_its_token_and_shows_its_dashboard_to_nobody(path: str) -> None:
    config, text = CLUSTERS[path], (ROOT / path).read_text()
    assert "--dashboard-host=127.0.0.1" in config["head_start_ray_commands"][-1]
    assert any(mount.endswith("/.ray/auth_token") for mount in config["file_mounts"])
    for kind in ("head", "worker"):
        start = config[f"{kind}_start_ray_commands"][-1] + str(config.get("docker", ""))
        assert "RAY_AUTH_MODE=token" in start
    assert "0.0.0.0" not in text


def test_rented_gpus_come_when_they_are_asked_for_and_go_when_they_are_idle() -> None:
    config = prepared("cluster.yaml")
    head, gpu = (config["available_node_types"][kind] for kind in (config["head_node_type"], "gpu"))
    assert head["resources"]["GPU"] == 0
    assert (gpu["min_workers"], gpu["max_workers"]) == (0, config["max_workers"])
    assert 1 <= config["idle_timeout_minutes"] <= 60
    assert gpu["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "-v /mnt/volume:/volume" in config["docker"]["run_options"], (
        "weights are on what outlives a machine"
    )


def test_kuberay_knows_every_field_of_the_job() -> None:
    """FIELDS is our excerpt of KubeRay 1.7.0's definition: the fields that are used, and no others."""
    validator = Draft202012Validator(FIELDS)
    assert [error.message for error in validator.iter_errors(RAYJOB)] == []
    spec = RAYJOB["spec"]
    for wrong in (
        {"shutdownAfterFinished": True},
        {"rayClusterSpec": {**spec["rayClusterSpec"], "authOptions": {"mode": "tokens"}}},
        {"ttlSecondsAfterFinished": "3600"},
    ):
        assert not validator.is_valid({**RAYJOB, "spec": {**spec, **wrong}})


def test_the_job_runs_what_the_command_takes_on_what_the_pods_have() -> None:
    from experiments.config import load

    words = RAYJOB["spec"]["entrypoint"].split()
    assert words[1] == "sweep"
    assert load(ROOT / words[2].removeprefix("/batchyard/")).name
    [workers] = RAYJOB["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert int(words[words.index("--lanes") + 1]) == workers["maxReplicas"]
    pods = [
        RAYJOB["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"],
        workers["template"]["spec"],
    ]
    for pod in pods:
        [container], volumes = pod["containers"], {volume["name"] for volume in pod["volumes"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts.keys() <= volumes
        assert words[words.index("--results") + 1].startswith(f"{mounts['volume']}/")


def test_versions_and_files_of_the_image_are_those_of_the_checkout() -> None:
    constraints = (ROOT / "constraints" / "gpu.txt").read_text()
    assert f"ray=={RAYJOB['spec']['rayClusterSpec']['rayVersion']}\n" in constraints
    instructions = re.findall(r"^([A-Z]+) ", DOCKERFILE, flags=re.MULTILINE)
    assert instructions[0] == "FROM"
    assert set(instructions) <= {"FROM", "RUN", "WORKDIR", "COPY", "ENV"}
    assert "make install KIND=gpu" in DOCKERFILE
    left_out = (ROOT / "cluster" / "Dockerfile.dockerignore").read_text().split()
    assert {".git", ".venv", "results/data"} <= set(left_out)
    assert not any(
        (ROOT / needed).match(one)
        for one in left_out
        for needed in ("Makefile", "constraints", "pyproject.toml")
    )
