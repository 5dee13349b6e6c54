"""Methods that make nodes over images: convolution, pooling."""

from __future__ import annotations

from collections.abc import Sequence

from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode, Operand


class Images(NetworkBase):
    """Nodes whose operand's columns are images, made by `image_input` or said by `reshape`."""

    def convolution(
        self,
        weight: Operand,
        image: Operand,
        kernel_width: int,
        kernel_height: int,
        output_channels: int,
        horizontal_subsample: int = 1,
        vertical_subsample: int = 1,
        *,
        zero_padding: bool = False,
        groups: int = 1,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Every kernel's product with every window of the image; the kernels are not turned round.

        weight  output channels x (kernel width · kernel height · input channels of a group);
                columns of 0 are inferred. Column `channel · width · height + row + column · height`
                of a kernel.
        groups  channels are cut into so many: an output reads the channels of its group alone. As
                many groups as there are channels, in and out, are a depthwise convolution.
        """
        settings = {
            "kernel_width": kernel_width,
            "kernel_height": kernel_height,
            "output_channels": output_channels,
            "horizontal_subsample": horizontal_subsample,
            "vertical_subsample": vertical_subsample,
            "zero_padding": zero_padding,
            "groups": groups,
        }
        return self._add("convolution", (weight, image), settings, name, tag)

    def max_pooling(
        self,
        x: Operand,
        window_width: int,
        window_height: int,
        step_width: int,
        step_height: int,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """The maximum of every window of the image, channel by channel."""
        settings = _window(window_width, window_height, step_width, step_height)
        return self._add("max_pooling", (x,), settings, name, tag)

    def average_pooling(
        self,
        x: Operand,
        window_width: int,
        window_height: int,
        step_width: int,
        step_height: int,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """The mean of every window of the image, channel by channel."""
        settings = _window(window_width, window_height, step_width, step_height)
        return self._add("average_pooling", (x,), settings, name, tag)


def _window(width: int, height: int, step_width: int, step_height: int) -> dict[str, int]:
    return {
        "window_width": width,
        "window_height": height,
        "step_width": step_width,
        "step_height": step_height,
    }
