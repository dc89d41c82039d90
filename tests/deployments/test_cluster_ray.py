"""What is told of a cluster that lets no driver in."""

import pytest
from ray._private.utils import check_version_info

from deployments.cluster_ray import check_answers, refused
from deployments.errors import DeviceError


def test_a_cluster_of_another_ray_or_python_is_one_line_with_both():
    with pytest.raises(RuntimeError) as error:
        check_version_info({"ray_version": "2.9.0", "python_version": "3.10.1"}, "node 10.0.0.2")
    said = str(refused("10.0.0.1:6379", error.value))
    assert "\n" not in said
    assert said.startswith("the cluster at 10.0.0.1:6379 is of another Ray or Python: Version mismatch: ")
    assert "Ray: 2.9.0 Python: 3.10.1" in said


@pytest.mark.parametrize(
    "address",
    ["", "nonsense", ":6379", "127.0.0.1:", "127.0.0.1:99999", "http://127.0.0.1:8265", "ray://a:10001"],
)
def test_what_is_no_address_of_a_head_is_not_called(address: str):
    with pytest.raises(DeviceError, match="--address must be HOST:PORT of a cluster's head, or auto, got "):
        check_answers(address)
