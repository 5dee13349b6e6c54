"""Methods that make statistics over the whole data set, and BatchNormalization."""

from __future__ import annotations

from collections.abc import Sequence

from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode, Operand


class Statistics(NetworkBase):
    """Statistics and normalisations."""

    def mean(self, feature: Operand, *, name: str | None = None) -> NetworkNode:
        """Mean of each row over the data set, rows x 1; computed by `precompute`."""
        return self._add("mean", (feature,), {}, name, ())

    def inv_std_dev(self, feature: Operand, *, name: str | None = None) -> NetworkNode:
        """1 / standard deviation of each row over the data set; computed by `precompute`."""
        return self._add("inv_std_dev", (feature,), {}, name, ())

    def batch_normalization(
        self,
        x: Operand,
        scale: Operand,
        bias: Operand,
        run_mean: Operand,
        run_inv_std_dev: Operand,
        *,
        eval_mode: bool = False,
        spatial: bool = False,
        normalization_time_constant: float = 0.0,
        exp_avg_factor: float = 1.0,
        epsilon: float = 1e-5,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Each row to mean 0 and variance 1, times `scale`, plus `bias`.

        In training by the minibatch, which also moves the parameters `run_mean` and
        `run_inv_std_dev`; otherwise by these. The four are rows x 1 (rows 0: inferred).

        eval_mode                    by the running parameters in training too
        spatial                      by channel of an image; the four are channels x 1
        normalization_time_constant  T > 0: N samples count 1 - e^(-N/T) in the running values
        exp_avg_factor               what a minibatch counts in them where T is 0
        epsilon                      added to the variance
        """
        settings = {
            "eval_mode": eval_mode,
            "spatial": spatial,
            "normalization_time_constant": normalization_time_constant,
            "exp_avg_factor": exp_avg_factor,
            "epsilon": epsilon,
        }
        operands = (x, scale, bias, run_mean, run_inv_std_dev)
        return self._add("batch_normalization", operands, settings, name, tag)
