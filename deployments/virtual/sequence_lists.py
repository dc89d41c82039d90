"""Linked lists of sequences, compiled: whatever their length, to add or remove one costs the same.

`links[node]` holds the nodes before and after. A list is closed to a ring by a node of its own, its head, whose
neighbours are the last and the first; a sequence is in one list at most of those that share their links.
"""

import numpy as np
import numpy.typing as npt

from deployments.virtual.compiled import compiled

Links = npt.NDArray[np.int64]
BEFORE, AFTER = 0, 1


def empty_lists(sequences: int, lists: int) -> Links:
    """Links of so many sequences, the nodes from 0, and of so many heads, the nodes after them."""
    nodes = np.arange(sequences + lists, dtype=np.int64)
    return np.stack([nodes, nodes], axis=1)


@compiled
def append(links: Links, head: int, node: int) -> None:
    """Make it the last one."""
    last = links[head, BEFORE]
    links[node, BEFORE], links[node, AFTER] = last, head
    links[last, AFTER] = links[head, BEFORE] = node


@compiled
def prepend(links: Links, head: int, node: int) -> None:
    """Make it the first one."""
    first = links[head, AFTER]
    links[node, BEFORE], links[node, AFTER] = head, first
    links[first, BEFORE] = links[head, AFTER] = node


@compiled
def remove(links: Links, node: int) -> None:
    """Take it out of its list."""
    before, after = links[node, BEFORE], links[node, AFTER]
    links[before, AFTER], links[after, BEFORE] = after, before
