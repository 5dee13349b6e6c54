"""The intermediate representation: types, operations, text form, verifier, rewriter, evaluator.

Knows no concrete operation and no pass.
"""
