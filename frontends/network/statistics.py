"""Methods that make statistics over the whole data set, and normalisations by them."""

from __future__ import annotations

from collections.abc import Sequence

from frontends.network.base import NetworkBase
from frontends.network.node import NetworkNode


class Statistics(NetworkBase):
    """Statistics and normalisations."""

    def mean(self, feature: NetworkNode, *, name: str | None = None) -> NetworkNode:
        """Mean of each row over the data set, rows x 1; computed by `precompute`."""
        return self._add("mean", (feature,), {}, name, ())

    def inv_std_dev(self, feature: NetworkNode, *, name: str | None = None) -> NetworkNode:
        """1 / standard deviation of each row over the data set; computed by `precompute`."""
        return self._add("inv_std_dev", (feature,), {}, name, ())

    def per_dim_mean_var_normalization(
        self,
        x: NetworkNode,
        mean: NetworkNode,
        inv_std_dev: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """(X - mean) ∘ invStdDev."""
        return self._add("per_dim_mean_var_normalization", (x, mean, inv_std_dev), {}, name, tag)

    def per_dim_mean_var_de_normalization(
        self,
        x: NetworkNode,
        mean: NetworkNode,
        inv_std_dev: NetworkNode,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """X ⊘ invStdDev + mean: `per_dim_mean_var_normalization` undone."""
        return self._add("per_dim_mean_var_de_normalization", (x, mean, inv_std_dev), {}, name, tag)
