"""Where to compute: options that are the same for all commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from driftrank.engine.devices import Device

DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="cpu|cuda|cluster", help="Where to compute; changes no number.", show_default="cpu"
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", metavar="T", help="Cores to use, of --device cpu.", show_default="all")
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Of a Dask scheduler, for --device cluster.",
        show_default="a cluster is started here",
    ),
]
SchedulerFileOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler-file", metavar="FILE", help="Instead, the file that tells its address.", show_default="none"
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="W", help="Worker processes of a cluster that is started here.", show_default="all cores"
    ),
]

#: which cluster: about the command, not about what it computes
CLUSTER: dict[str, Any] = {"address": "", "scheduler_file": "", "workers": None}
#: all of the above
DEVICE: dict[str, Any] = {"device": "cpu", "threads": None, **CLUSTER}


def chosen_device(settings: dict[str, Any]) -> Device:
    """What the functions of :mod:`driftrank.experiments` take as ``device``.

    The settings of a cluster are taken out of ``settings``; ``device``, the word, and ``threads`` stay.
    """
    from driftrank.engine.cluster import Cluster
    from driftrank.engine.devices import word_for

    word = word_for(settings["device"])
    given: dict[str, Any] = {key: settings.pop(key) or None for key in ("address", "scheduler_file")}
    given["workers"] = settings.pop("workers")
    for key, value in given.items():
        if value is not None and word != "cluster":
            option = key.replace("_", "-")
            raise ValueError(f"{key}={value!r}: --{option} is for --device cluster, and the device is {word!r}")
    return Cluster(**given) if word == "cluster" else word
