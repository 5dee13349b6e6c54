"""`Network`: one method per node, by hand in the file of its family or from the nodes' records."""

from __future__ import annotations

from graphc_frontends.network.criteria import Criteria
from graphc_frontends.network.edits import Edits
from graphc_frontends.network.functions import Functions
from graphc_frontends.network.images import Images
from graphc_frontends.network.leaves import Leaves
from graphc_frontends.network.recurrence import Recurrence
from graphc_frontends.network.shapes import Shapes
from graphc_frontends.network.statistics import Statistics
from graphc_frontends.network.text import AsText


class Network(Edits, Leaves, Functions, Shapes, Images, Criteria, Statistics, Recurrence, AsText):
    """A network of nodes and the values of its parameters.

    A node is a matrix with one column per sample, a parameter a matrix rows x cols. Every method
    that makes a node takes `name` (a fresh `unnamedN` by default) and `tag`: one or several of
    feature, label, criterion, evaluation, output, multiseq. GraphcError for a bad argument.
    """
