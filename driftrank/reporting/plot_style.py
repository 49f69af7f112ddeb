"""The style of all figures: colours, lines, axes, file formats."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftrank.extras import need
from driftrank.files import written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# colours that people with colour blindness can distinguish (Okabe and Ito), the paper's two policies first
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A00")
_OWN = {
    "CascadeSWUCB": 0, "CascadeDUCB": 1, "CascadeKLUCB": 2, "RankedEXP3": 3, "BatchRank": 4, "BubbleRank": 5,
    "PriorRegimeTS": 6, "CascadeRegimeTS": 7,
}  # fmt: skip
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "v", "D", "X")


def new_figure(width: float = 7.0, height: float = 4.2) -> Figure:
    """A figure without a window or global state."""
    need("plots", "matplotlib")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and line style of every policy; the default one and those of the paper have the same in every figure.

    There are 32 combinations of 8 colours and 4 line styles. Further policies repeat them with markers.
    """
    names = {label: label.partition(":")[0] for label in labels}
    often = Counter(names.values())
    own = {label: _OWN[name] for label, name in names.items() if name in _OWN and (label == name or often[name] == 1)}
    taken = set(own.values())
    free = (i for i in itertools.count() if i not in taken)
    out: dict[str, dict[str, Any]] = {}
    for label in labels:
        i = own[label] if label in own else next(free)
        line, colour = divmod(i, len(_COLOURS))
        marker, line = divmod(line, len(_LINES))
        out[label] = {"color": _COLOURS[colour], "linestyle": _LINES[line]}
        if marker:
            out[label] |= {"marker": _MARKERS[(marker - 1) % len(_MARKERS)], "markersize": 4, "markevery": 0.1}
    return out


def mark_breakpoints(ax: Axes, breakpoints: list[int]) -> None:
    for n, step in enumerate(breakpoints):
        ax.axvline(step, color="0.75", linewidth=0.7, zorder=0, label="breakpoint" if n == 0 else None)


def beautify(ax: Axes) -> None:
    """Remove the frame and shorten the numbers."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.xaxis.set_major_formatter(_thousands)
    ax.yaxis.set_major_formatter(_thousands)


def _thousands(value: float, _: object) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def save_figure(figure: Figure, folder: Path, name: str, dpi: int = 160) -> list[Path]:
    """Write NAME.png and NAME.svg. The same figure gives the same bytes."""
    import matplotlib

    paths = []
    with matplotlib.rc_context({"svg.hashsalt": "driftrank"}):
        for kind, metadata in (("png", {}), ("svg", {"Date": None})):
            path = folder / f"{name}.{kind}"
            with written(path) as temporary:
                figure.savefig(temporary, format=kind, dpi=dpi, metadata=metadata, facecolor="white")
            paths.append(path)
    return paths
