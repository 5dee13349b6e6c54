"""Methods that make leaves: inputs, parameters, constants."""

from __future__ import annotations

from collections.abc import Sequence

from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode


class Leaves(NetworkBase):
    """Nodes without operands."""

    def input(self, name: str, rows: int, *, tag: str | Sequence[str] = ()) -> NetworkNode:
        """Data with `rows` numbers a sample, given at every call under this name.

        With the tag `label` class numbers (samples,) may be given for one-hot rows.
        """
        return self._add("input", (), {"rows": rows}, name, tag)

    def image_input(
        self,
        name: str,
        width: int,
        height: int,
        channels: int,
        *,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Images, one a sample, given at every call under this name: (samples, rows).

        There are width · height · channels rows; channel `c` of the pixel in image row `y` and
        image column `x` is row `c + channels · (y + height · x)`.
        """
        sizes = {"width": width, "height": height, "channels": channels}
        return self._add("input", (), sizes, name, tag)

    def sparse_input(self, name: str, rows: int, *, tag: str | Sequence[str] = ()) -> NetworkNode:
        """As `input`, for data of which most numbers are zero: products with it look up rows.

        A call gives a CSR matrix (samples, rows), a tuple (indices, offsets) or (indices, offsets,
        values) where sample n has the entries from offsets[n] to offsets[n + 1], an array, or class
        numbers (samples,): one entry of 1 for each sample.
        """
        return self._add("sparse_input", (), {"rows": rows}, name, tag)

    def sparse_image_input(
        self,
        name: str,
        width: int,
        height: int,
        channels: int,
        *,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """As `image_input`, for images of which most numbers are zero; see `sparse_input`."""
        sizes = {"width": width, "height": height, "channels": channels}
        return self._add("sparse_input", (), sizes, name, tag)

    def parameter(
        self,
        name: str,
        rows: int,
        cols: int = 1,
        *,
        init: str = "uniform",
        init_value_scale: float = 1.0,
        value: float = 0.0,
        init_from_file_path: str = "",
        need_gradient: bool = True,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """A matrix rows x cols that training changes; a size of 0 is taken from what it meets.

        init  uniform (±0.05·scale), gaussian (deviation 0.2·scale/√cols), fixedValue (`value`),
              fromFile (text file, one row a line); case and underscores do not matter
        """
        settings = {
            "rows": rows,
            "cols": cols,
            "init": _init(init),
            "init_value_scale": init_value_scale,
            "value": value,
            "init_from_file_path": init_from_file_path,
            "need_gradient": need_gradient,
        }
        return self._add("parameter", (), settings, name, tag)

    def image_parameter(
        self,
        name: str,
        width: int,
        height: int,
        channels: int,
        *,
        init: str = "uniform",
        init_value_scale: float = 1.0,
        value: float = 0.0,
        init_from_file_path: str = "",
        need_gradient: bool = True,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """One image that training changes, width · height · channels rows x 1 as in `image_input`;
        `init` as in `parameter`."""
        settings = {
            "width": width,
            "height": height,
            "channels": channels,
            "init": _init(init),
            "init_value_scale": init_value_scale,
            "value": value,
            "init_from_file_path": init_from_file_path,
            "need_gradient": need_gradient,
        }
        return self._add("parameter", (), settings, name, tag)

    def constant(
        self, value: float, rows: int = 1, cols: int = 1, *, name: str | None = None
    ) -> NetworkNode:
        """A matrix with `value` everywhere."""
        return self._add("constant", (), {"value": value, "rows": rows, "cols": cols}, name, ())


def _init(text: object) -> object:
    """NDL's spelling (`fixedValue`) as the node's (`fixed_value`)."""
    if not isinstance(text, str):
        return text  # the builder says what is required
    plain = text.lower().replace("_", "")
    spellings = {"fixedvalue": "fixed_value", "fromfile": "from_file"}
    return spellings.get(plain, plain)
