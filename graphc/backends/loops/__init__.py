"""How operations of the kernel level are computed: loops, written by whatever `Writer` is given.

Products, convolutions, poolings, sums of lookups, rearrangements, row updates and nests are here,
with the element functions that they use. Nothing here knows the language that is written.
"""
