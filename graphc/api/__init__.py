"""What users call: load, edit, compile, compile_training, train, evaluate, to_networkx, …"""

from graphc.api.compilation import compile, export_onnx, to_networkx
from graphc.api.files import MODEL_SUFFIX, edit, edit_file, edits, load, load_program, loads
from graphc.api.training import (
    check_training_gradient,
    compile_training,
    evaluate,
    gradients,
    train,
)

__all__ = [
    "MODEL_SUFFIX",
    "check_training_gradient",
    "compile",
    "compile_training",
    "edit",
    "edit_file",
    "edits",
    "evaluate",
    "export_onnx",
    "gradients",
    "load",
    "load_program",
    "loads",
    "to_networkx",
    "train",
]
