"""Several devices: weights and optimiser states are split over all of them (FSDP), rows of a batch as well.

One mesh with one axis. What a device lacks of a weight it gathers when a layer is computed; XLA writes the transfers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

AXIS = "data"


class Placement(NamedTuple):
    """Where arrays lie; without a mesh, where JAX puts them."""

    mesh: Mesh | None = None

    @classmethod
    def over_all(cls) -> Placement:
        """Over every device there is."""
        devices = jax.devices()
        return cls(jax.make_mesh((len(devices),), (AXIS,), devices=devices, axis_types=(AxisType.Auto,)))

    def split(self, tree: Any) -> Any:
        """Each array along its longest axis that can be divided evenly; small ones whole on every device."""
        return self._put(tree, self._longest)

    def rows(self, tree: Any, axis: int = 0) -> Any:
        """Each array along an axis, where it can be divided evenly."""
        return self._put(tree, lambda x: self._along(x, axis if x.ndim > axis and self._divides(x, axis) else None))

    def whole(self, tree: Any) -> Any:
        """Each array on every device."""
        return self._put(tree, lambda x: self._along(x, None))

    def keep_split(self, tree: Any) -> Any:
        """Inside a compiled function: as `split` has it."""
        if self.mesh is None:
            return tree
        return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, self._longest(x)), tree)

    def _put(self, tree: Any, place: Any) -> Any:
        if self.mesh is None:
            return tree
        return jax.tree.map(lambda x: jax.device_put(x, place(x)), tree)

    def _divides(self, x: Any, axis: int) -> bool:
        assert self.mesh is not None
        return bool(x.shape[axis] % self.mesh.size == 0 and x.shape[axis] > 0)

    def _along(self, x: Any, axis: int | None) -> NamedSharding:
        assert self.mesh is not None
        parts = [AXIS if i == axis else None for i in range(x.ndim)]
        return NamedSharding(self.mesh, PartitionSpec(*parts))

    def _longest(self, x: Any) -> NamedSharding:
        able = [i for i in range(x.ndim) if self._divides(x, i)]
        return self._along(x, max(able, key=lambda i: x.shape[i]) if able and x.size > 1024 else None)
