"""The configuration language of the Computational Network Toolkit (CNTK, 2015), as a typed library.

    from graphc.config import assemble, Scope

    top = Scope.top(assemble(["configFile=simple.config", "deviceId=cpu"]))
    train = top.section("Simple_Demo")
    train.section("SGD").find("minibatchSize").integer()

The way of a text: `assemble` joins files and command-line arguments to one `Text` that knows where
each character came from; `records` cuts it into keys and values; `lookup` finds values through the
sets around them and puts `$name$` in; `values` reads numbers, truth values and lists; `keys` are
typed descriptions of what a block takes. Nothing here knows what the keys mean.
"""

from __future__ import annotations

from graphc.config.assemble import assemble
from graphc.config.keys import Key
from graphc.config.lookup import Scope, Value
from graphc.config.text import Text

__all__ = ["Key", "Scope", "Text", "Value", "assemble"]
