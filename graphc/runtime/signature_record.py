"""A `Signature` as plain data and back, for files that keep it beside the code that it describes.

Reading takes exactly what writing gives: a field too many, too few or of another kind is refused.
"""

from __future__ import annotations

from graphc.runtime.signature import Signature
from graphc.support.records import read_record, record_of


def signature_record(signature: Signature) -> dict[str, object]:
    """The signature as dicts, lists, texts and numbers, ready for `json.dumps`."""
    return record_of(signature)


def read_signature(record: object) -> Signature:
    """The inverse of `signature_record`, after a way through JSON. ValueError for anything else."""
    return read_record(Signature, record)
