"""A picture of a run: for each workload, how fast everyone is next to the best peer.

python -m bench.plot bench/results/NAME.json FILE.png
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from json import loads
from pathlib import Path
from typing import Any

from bench.peers import ENTRIES

COLOURS = {"graphc-llvm": "#1b6ca8", "graphc-numpy": "#8fbfe0"}
PEER_COLOURS = (
    "#d98c3f",
    "#c0605b",
    "#7a9a5a",
    "#8d7bb3",
    "#a5896a",
    "#c98bb0",
    "#8c8c8c",
    "#b7b04a",
)


def draw(record: Mapping[str, Any], path: Path) -> None:
    """Bars of best_peer_ms / ms on a logarithmic scale; one panel for each number of threads."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit("a picture requires matplotlib: pip install graphc[plot]") from None
    found: list[dict[str, Any]] = [r for r in record["rows"] if r["best_peer_ms"]]
    if not found:
        raise SystemExit("a picture requires a peer to compare with")
    counts = sorted({r["threads"] for r in found})
    works = list(dict.fromkeys(r["workload"] for r in found))
    names = [n for n in ENTRIES if any(r["backend"] == n for r in found)]
    colours = dict(zip([n for n in names if n not in COLOURS], PEER_COLOURS * 3, strict=False))
    size = max(8.0, 2 + 0.9 * len(works)), 1 + 3.4 * len(counts)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(counts), 1, squeeze=False)[:, 0]
    width = 0.85 / len(names)
    floor = min(r["ratio_to_best_peer"] for r in found) / 1.3
    for panel, threads in zip(panels, counts, strict=True):
        for i, name in enumerate(names):
            heights = {
                r["workload"]: r["ratio_to_best_peer"]
                for r in found
                if r["backend"] == name and r["threads"] == threads
            }
            places = [k + (i - (len(names) - 1) / 2) * width for k in range(len(works))]
            shown = [(x, heights[w]) for x, w in zip(places, works, strict=True) if w in heights]
            panel.bar(
                [x for x, _ in shown],
                [h - floor for _, h in shown],
                width,
                bottom=floor,
                label=name,
                color=(COLOURS | colours)[name],
            )
        panel.set_yscale("log", base=2)
        panel.yaxis.set_major_formatter(lambda value, place: f"{value:g}")
        panel.set_ylim(bottom=floor)
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set_xticks(range(len(works)), works, rotation=30, ha="right")
        panel.set_ylabel("times as fast as\nthe best peer")
        panel.set_title(f"{threads} thread{'s' * (threads > 1)}", loc="left")
    shown, labels = panels[0].get_legend_handles_labels()
    figure.legend(shown, labels, ncols=6, fontsize="small", loc="outside upper center")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    draw(loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
