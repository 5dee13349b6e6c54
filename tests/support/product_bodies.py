"""A `gemm.fused` with every kind of body, as text."""

from __future__ import annotations

LAYOUTS = {
    "plain": ("Nx{K}", "{K}x{C}", ""),
    "transposed a": ("{K}xN", "{K}x{C}", "{transpose_a = true}"),
    "transposed b": ("Nx{K}", "{C}x{K}", "{transpose_b = true}"),
}

TEXT = """
dim N <= 70
func @f({ARGUMENTS}) -> ({RESULTS}) {{
  {NAMES} = gemm.fused %a, %b, %s, %r, %n, %v {SETTINGS} : {TYPES} {{
  ^(%p: {FULL}, %ps: {ROW}, %pr: tensor<Nx1x{T}>, %pn: tensor<1x1x{T}>, %pv: {FULL}):
    %0 = broadcast %ps {{dims = [N, {C}]}} : {FULL}
    %1 = broadcast %pr {{dims = [N, {C}]}} : {FULL}
    %2 = broadcast %pn {{dims = [N, {C}]}} : {FULL}
    %3 = mul %2, %pv : {FULL}
    %4 = add %p, %0 : {FULL}
    %5 = mul %4, %1 : {FULL}
    %6 = add %5, %3 : {FULL}
    %7 = tanh %6 : {FULL}
{SUM}
    yield {YIELD}
  }}
  return {NAMES}
}}
"""
ARGUMENTS = {
    "a": ("{A}", "input"),
    "b": ("{B}", "input"),
    "s": ("1x{C}", "input"),
    "r": ("Nx1", "input"),
    "n": ("1x1", "input"),
    "v": ("Nx{C}", "state"),
}


def product_with_body(
    layout: str, schedule: str, extents: tuple[int, int], dtype: str, *, has_sum: bool
) -> str:
    """A product with a bias, a factor for each row, one for all, an update of %v and, if asked for,
    a sum over the rows; `extents`: how long its sums are, its columns."""
    inner, cols = extents
    a, b, setting = LAYOUTS[layout]
    full, row = f"tensor<Nx{cols}x{dtype}>", f"tensor<1x{cols}x{dtype}>"
    sizes = {"A": a.format(K=inner), "B": b.format(K=inner, C=cols), "C": cols}
    arguments = [
        f"%{name}: tensor<{dims.format(**sizes)}x{dtype}> {role}"
        for name, (dims, role) in ARGUMENTS.items()
    ]
    return TEXT.format(
        ARGUMENTS=", ".join(arguments),
        RESULTS=f"z: {full}, v: {full} updates %v" + f", t: {row}" * has_sum,
        NAMES="%z, %w" + ", %t" * has_sum,
        SETTINGS=f"{setting} {schedule}",
        TYPES=f"{full}, {full}" + f", {row}" * has_sum,
        YIELD="%7, %6" + ", %8" * has_sum,
        SUM=f"    %8 = reduce_sum %7 {{axes = [0]}} : {row}" * has_sum,
        FULL=full,
        ROW=row,
        C=cols,
        T=dtype,
    )
