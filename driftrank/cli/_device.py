"""The device that options describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftrank.engine.devices import Device


def chosen_device(device: str, address: str | None, scheduler_file: str | None, workers: int | None) -> Device:
    """Return what the functions of :mod:`driftrank.experiments` take as ``device``."""
    from driftrank.engine.cluster.cluster import Cluster
    from driftrank.engine.devices import word_for

    word = word_for(device)
    address, scheduler_file = address or None, scheduler_file or None
    if word == "cluster":
        return Cluster(address=address, scheduler_file=scheduler_file, workers=workers)
    for key, value in (("address", address), ("scheduler_file", scheduler_file), ("workers", workers)):
        if value is not None:
            option = key.replace("_", "-")
            raise ValueError(f"{key}={value!r}: --{option} is for --device cluster, and the device is {word!r}")
    return word
