"""cluster.yaml is what Ray's launcher takes; nothing is brought up."""

from pathlib import Path

import pytest
import yaml

CONFIG = yaml.safe_load((Path(__file__).parent.parent / "cluster.yaml").read_text())

pytestmark = pytest.mark.filterwarnings("ignore")


def test_rays_launcher_accepts_it() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(CONFIG))
    with pytest.raises(Exception, match="initial_workers"):
        validate_config(prepare_config(CONFIG | {"initial_workers": 1}))


def test_the_ray_that_is_started_is_the_one_that_was_installed() -> None:
    from ray.autoscaler._private.util import prepare_config

    prepared = prepare_config(CONFIG)  # fills in Ray's own commands where there are none
    commands = [*prepared["head_setup_commands"], *prepared["head_start_ray_commands"]]
    words = {word for command in commands for word in command.split()}
    assert {word for word in words if word.endswith("/ray")} == {"batchyard/.venv/bin/ray"}
    assert "ray" not in words  # the machine image's, if it has one
