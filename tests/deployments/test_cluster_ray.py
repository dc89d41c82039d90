"""What is told of a cluster that lets no driver in."""

import pytest
from ray._private.utils import check_version_info

from deployments.cluster_ray import refused


def test_a_cluster_of_another_ray_or_python_is_one_line_with_both():
    with pytest.raises(RuntimeError) as error:
        check_version_info({"ray_version": "2.9.0", "python_version": "3.10.1"}, "node 10.0.0.2")
    said = str(refused("10.0.0.1:6379", error.value))
    assert "\n" not in said
    assert said.startswith("the cluster at 10.0.0.1:6379 is of another Ray or Python: Version mismatch: ")
    assert "Ray: 2.9.0 Python: 3.10.1" in said
