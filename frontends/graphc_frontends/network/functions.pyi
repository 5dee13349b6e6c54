"""Made by docs/generate.py from the nodes' records; do not edit."""

from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode, Operand, Tags

class Functions(NetworkBase):
    """One method for each of `NODE_FUNCTIONS`."""

    def times(
        self,
        a: Operand,
        b: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Matrix product."""

    def transpose_times(
        self,
        a: Operand,
        b: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Matrix product with the first operand transposed."""

    def row_element_times(
        self,
        x: Operand,
        row: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Each row of a matrix times a row vector, element by element."""

    def column_element_times(
        self,
        x: Operand,
        column: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Each column of a matrix times a column vector, element by element."""

    def diag_times(
        self,
        diagonal: Operand,
        x: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """A diagonal matrix, given by its diagonal as a column vector, times a matrix."""

    def khatri_rao_product(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """All products of an element of x and one of y in the same column; the row of x varies
        fastest."""

    def column_times(
        self,
        a: Operand,
        b: Operand,
        *,
        inner: int = 1,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """In each column the product of two matrices, which stand there column after column; of
        vectors (inner = all rows) their inner product."""

    def element_divide(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Quotient, infinite or nan where y is 0; integers truncate and are 0 there; element by
        element."""

    def negate(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Negation; element by element."""

    def abs(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Absolute value; slope 0 at 0; element by element."""

    def clip(
        self,
        x: Operand,
        low: Operand,
        high: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """X within low and high, high where they cross; slope 1 at both; nan if any is nan;
        element by element."""

    def where(
        self,
        condition: Operand,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """X where the condition holds, y elsewhere; element by element."""

    def equal(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Whether the operands are equal; false on nan; element by element, 1 or 0."""

    def not_equal(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Whether the operands differ; true on nan; element by element, 1 or 0."""

    def less(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Whether x is less than y; element by element, 1 or 0."""

    def less_equal(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Whether x is at most y; element by element, 1 or 0."""

    def greater(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Whether x is greater than y; element by element, 1 or 0."""

    def greater_equal(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Whether x is at least y; element by element, 1 or 0."""

    def exp(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Exponential function; element by element."""

    def sqrt(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Square root; nan below 0; element by element."""

    def tanh(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Hyperbolic tangent; element by element."""

    def sigmoid(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Logistic sigmoid; element by element."""

    def cosine(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Cosine of an angle in radians; element by element."""

    def pow(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """X to the power y; nan for a negative x with a y that is not whole; x^0 and 1^y are 1;
        element by element."""

    def elu(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Exponential linear unit: e^x - 1 below 0, x elsewhere; slope 1 at 0; element by
        element."""

    def softplus(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Logarithm of 1 + e^x, without overflow; element by element."""

    def gelu(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Gaussian error linear unit: x times the share of a normal distribution below x;
        element by element."""

    def rectified_linear(
        self,
        x: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """The positive part of each element; slope 0 at 0."""

    def log(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Natural logarithm of each element; arguments below 1e-37 are taken as 1e-37."""

    def softmax(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Softmax of each column."""

    def log_softmax(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """Logarithm of the softmax of each column."""

    def hardmax(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """1 at the first maximum of each column, 0 elsewhere; no gradient flows."""

    def plus(
        self,
        a: Operand,
        b: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Sum, with broadcasting of row and column vectors."""

    def minus(
        self,
        a: Operand,
        b: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Difference, with broadcasting of row and column vectors."""

    def element_times(
        self,
        a: Operand,
        b: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Element-wise product of two nodes of one size."""

    def scale(
        self,
        factor: Operand,
        x: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """A matrix times a 1x1 node."""

    def transpose(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """A matrix with rows and columns exchanged."""

    def diagonal(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """The diagonal of a square matrix as a row vector."""

    def time_reverse(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """The columns of each sequence in reverse order; without sequences a minibatch is
        one."""

    def sum_column_elements(
        self,
        x: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """The sum of each column."""

    def cos_distance(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """The cosine of the angle between columns (1 for the same direction); 0 where a column
        is zero."""

    def top_k(
        self,
        x: Operand,
        *,
        k: int = 1,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """The largest elements of each column, in order; nan counts as the largest."""

    def top_k_rows(
        self,
        x: Operand,
        *,
        k: int = 1,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """The rows of the largest elements of each column, counted from 0, in the order of
        TopK."""

    def sum_elements(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """The sum of all elements."""

    def square_error(
        self,
        target: Operand,
        prediction: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Half the sum of squared differences."""

    def cross_entropy(
        self,
        label: Operand,
        probability: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Cross entropy of probabilities."""

    def cross_entropy_with_softmax(
        self,
        label: Operand,
        prediction: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Cross entropy of the softmax of scores."""

    def error_prediction(
        self,
        label: Operand,
        prediction: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Number of columns whose largest label and largest prediction are in different
        rows."""

    def matrix_l1_reg(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """The sum of absolute values."""

    def matrix_l2_reg(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """The Frobenius norm, not squared."""

    def class_based_cross_entropy_with_softmax(
        self,
        label: Operand,
        hidden: Operand,
        weight: Operand,
        class_score: Operand,
        *,
        max_class_size: int = 0,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Cross entropy of words as the probability of their class times that among its
        words."""

    def gmm_log_likelihood(
        self,
        unnormed_prior: Operand,
        mean: Operand,
        log_std_dev: Operand,
        feature: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Log likelihood of each column under a mixture of Gaussians."""

    def lookup_table(
        self,
        table: Operand,
        x: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """The table times each block of rows of a matrix: the vectors that one-hot blocks point
        at."""

    def crf(
        self,
        label: Operand,
        score: Operand,
        transition: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Minus the log likelihood of a label sequence under a linear-chain conditional random
        field, summed over the sequences; without sequences the minibatch is one."""

    def attention(
        self,
        query: Operand,
        key: Operand,
        value: Operand,
        *,
        heads: int = 1,
        causal: bool = False,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Of each step the mean of its sequence's values, weighted by how its query fits their
        keys; without sequences a minibatch is one."""

    def per_dim_mean_var_normalization(
        self,
        x: Operand,
        mean: Operand,
        inv_std_dev: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Each row minus its mean, times its reciprocal standard deviation."""

    def per_dim_mean_var_de_normalization(
        self,
        x: Operand,
        mean: Operand,
        inv_std_dev: Operand,
        *,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Each row divided by its reciprocal standard deviation, plus its mean."""

    def dropout(self, x: Operand, *, name: str | None = None, tag: Tags = ()) -> NetworkNode:
        """In training, random elements set to zero and the others scaled up; otherwise the
        operand."""

    def layer_normalization(
        self,
        x: Operand,
        scale: Operand,
        bias: Operand,
        *,
        epsilon: float = 1e-05,
        name: str | None = None,
        tag: Tags = (),
    ) -> NetworkNode:
        """Each column to mean 0 and variance 1, then scaled and moved."""
