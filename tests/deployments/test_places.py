"""Where lanes can be on a cluster, from what Ray tells of its nodes."""

from typing import Any

from deployments.places import KIND_LABEL, Here, OnCluster, Place, in_use, most_gpus, places_of


def node(name: str, *, gpus: float = 0, cpus: float = 4, alive: bool = True, **more: Any) -> dict[str, Any]:
    resources = {"CPU": cpus, **({"GPU": gpus} if gpus else {}), **more.get("resources", {})}
    labels = {"ray.io/node-id": name, **more.get("labels", {})}
    return {
        "NodeID": name,
        "Alive": alive,
        "Resources": resources,
        "Labels": labels,
        "NodeManagerHostname": f"host-{name}",
    }


def on(wanted: OnCluster, *nodes: dict[str, Any]) -> list[tuple[str | None, int, str]]:
    return [(place.node, place.slot, place.kind) for place in places_of(nodes, wanted)]


ANY = OnCluster(labels={})


def test_each_gpu_of_a_living_node_is_a_place():
    nodes = [node("c", gpus=2), node("b", gpus=1, alive=False), node("a", gpus=1), node("head")]
    assert on(ANY, *nodes) == [("a", 0, ""), ("c", 0, ""), ("c", 1, "")]
    first = places_of(nodes, ANY)[0]
    assert first == Place(slot=0, gpu=True, node="a", host="host-a", cores=4)


def test_a_lane_of_several_gpus_has_them_all_of_one_node():
    wanted = OnCluster(labels={}, gpus=2)
    nodes = [node("a", gpus=1), node("b", gpus=5), node("c", gpus=8, alive=False), node("head")]
    assert on(wanted, *nodes) == [("b", 0, ""), ("b", 1, "")]
    assert {place.gpus for place in places_of(nodes, wanted)} == {2}
    assert most_gpus(nodes, wanted) == 5
    assert most_gpus(nodes, OnCluster(labels={"zone": "x"}, gpus=2)) == 0


def test_the_kind_is_a_label_or_what_ray_found_and_can_be_chosen():
    labelled = node("a", gpus=1, labels={KIND_LABEL: "A10G"})
    found = node("b", gpus=1, resources={"accelerator_type:L4": 1.0})
    assert on(ANY, labelled, found) == [("a", 0, "A10G"), ("b", 0, "L4")]
    assert on(OnCluster(labels={}, kinds=("L4",)), labelled, found) == [("b", 0, "L4")]
    assert on(OnCluster(labels={KIND_LABEL: "L4"}), labelled, found) == [("b", 0, "L4")]


def test_a_node_has_all_labels_that_are_asked_for():
    zoned = node("a", gpus=1, labels={"zone": "x", "spot": "no"})
    asked = OnCluster(labels={"zone": "x", "spot": "no"})
    assert on(asked, zoned, node("b", gpus=1, labels={"zone": "x"})) == [("a", 0, "")]


def test_on_processors_each_node_is_a_place_the_drivers_while_it_is_alone():
    wanted = OnCluster(labels={}, on_cpu=True, driver="head")
    found = places_of([node("head"), node("a"), node("b", gpus=1)], wanted)
    assert [(place.node, place.kind, place.spare) for place in found] == [
        ("a", "", False),
        ("b", "", False),
        ("head", "", True),
    ]
    assert [place.node for place in in_use(found)] == ["a", "b"]
    assert [place.node for place in in_use(places_of([node("head")], wanted))] == ["head"]
    assert in_use(()) == ()


def test_this_machine_has_as_many_places_as_were_asked_for():
    assert [(place.slot, place.node) for place in Here(lanes=2, gpu=False)()] == [(0, None), (1, None)]
