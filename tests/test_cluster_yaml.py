"""cluster.yaml is what Ray's launcher takes; nothing is brought up."""

from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.filterwarnings("ignore")


def test_rays_launcher_accepts_it() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load((Path(__file__).parent.parent / "cluster.yaml").read_text())
    validate_config(prepare_config(config))
    with pytest.raises(Exception, match="initial_workers"):
        validate_config(prepare_config(config | {"initial_workers": 1}))
