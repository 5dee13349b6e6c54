"""The digit classifier, from its description to a program: train, measure, compile, run.

Uses only the commands that a user has: each one is shown before it is run. What is made stands
in `out/` beside this file. The last line is the summary.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OUT = HERE / "out"
GRAPHC = shutil.which("graphc", path=str(Path(sys.executable).parent)) or shutil.which("graphc")

COLUMNS = ["--features", "0:64", "--labels", "64", "--classes", "10"]
TRAINING = [
    *["--epochs", "30", "--minibatch", "32"],
    *["--learning-rate", "1.0", "--momentum", "0.9", "--seed", "1"],
]


def main() -> int:
    """The exit code of the first command that fails, or 0."""
    if GRAPHC is None:
        print("graphc is not installed: run `make demo`, or `pip install .` first", file=sys.stderr)
        return 2
    OUT.mkdir(exist_ok=True)
    train_data, test_data = shown(HERE / "train.txt"), shown(HERE / "test.txt")
    model, program = shown(OUT / "digits.safetensors"), shown(OUT / "digits")

    say("1. Train the network on 1,437 images.")
    network = shown(HERE / "digits.ndl")
    run("graphc", "train", network, "--data", train_data, *COLUMNS, *TRAINING, "-o", model)

    say("2. Measure the model on 360 images that it has not seen.")
    run("graphc", "eval", model, "--data", test_data, *COLUMNS)

    say("3. Compile the model to a program of its own.")
    run("graphc", "compile", model, "-o", program, "--emit", "exe")

    say("4. Let the program read the same 360 images. It needs neither Python nor graphc.")
    classify = [
        program,
        "--columns",
        "0:64",
        "--label",
        "64",
        "--quiet",
        "--time",
        "--repeat",
        "99",
    ]
    report = run(*classify, test_data)

    correct, total, microseconds = read_report(report)
    size = (OUT / "digits").stat().st_size
    print(
        f"\ndigits: test accuracy {correct / total:.3f} ({correct} of {total}), "
        f"executable {size / 1000:.0f} kB, {microseconds:.1f} us a sample"
    )
    return 0


def say(text: str) -> None:
    """A step of the demo."""
    print(f"\n{text}", flush=True)


def shown(path: Path) -> str:
    """The path from the current folder if it is below it, as one would type it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def run(*command: str) -> str:
    """Show a command, run it, show and return what it says; leaves with its code if it fails."""
    print(f"$ {shlex.join(command)}", flush=True)
    program = GRAPHC if command[0] == "graphc" else str(Path(command[0]).resolve())
    done = subprocess.Popen(
        [str(program), *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.stdout is not None
    said: list[str] = []
    for line in done.stdout:
        print(f"  {line}", end="", flush=True)
        said.append(line)
    if done.wait() != 0:
        sys.exit(done.returncode)
    return "".join(said)


def read_report(report: str) -> tuple[int, int, float]:
    """Right answers, samples, and the median time of one sample in microseconds."""
    errors = re.search(r"(\d+) errors in (\d+) samples", report)
    time = re.search(r"median [\d.]+ ms \(([\d.]+) us a sample\)", report)
    if errors is None or time is None:
        sys.exit("the program did not report its errors and its time")
    return int(errors[2]) - int(errors[1]), int(errors[2]), float(time[1])


if __name__ == "__main__":
    sys.exit(main())
