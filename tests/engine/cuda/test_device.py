from __future__ import annotations

import pytest

pytest.importorskip("numba_cuda")

from numba import cuda

from driftrank.engine.cuda.device import Gpu, NoGpu, obstacle_to, out_of_memory

CUDA12, CUDA13 = (12, 9), (13, 4)
OF12 = [(7, 0), (7, 5), (8, 0), (9, 0), (12, 0)]
OF13 = [(7, 5), (8, 0), (9, 0), (12, 0), (12, 1)]


@pytest.mark.parametrize(
    ("capability", "driver", "toolkit", "obstacle"),
    [
        ((9, 0), (13, 0), CUDA13, None),  # an older minor version works
        ((9, 0), (14, 0), CUDA13, None),  # drivers run what was compiled for those before them
        ((7, 0), (12, 2), CUDA12, None),
        ((6, 1), CUDA12, CUDA12, "has compute capability 6.1, but 7.0 is required"),
        (
            (9, 0),
            (12, 8),
            CUDA13,
            "its driver supports CUDA 12.8, but the compiler is of CUDA 13.4: pip install 'driftrank[cuda12]'",
        ),
        (
            (7, 0),
            (13, 0),
            CUDA13,
            "has compute capability 7.0, which CUDA 13.4 no longer supports: pip install 'driftrank[cuda12]'",
        ),
        (
            (12, 1),
            CUDA13,
            CUDA12,
            "has compute capability 12.1, which CUDA 12.9 does not support: a newer numba-cuda may",
        ),
    ],
)
def test_which_gpus_can_be_used(
    capability: tuple[int, int], driver: tuple[int, int], toolkit: tuple[int, int], obstacle: str | None
) -> None:
    assert obstacle_to(capability, driver, toolkit, OF12 if toolkit == CUDA12 else OF13) == obstacle


@pytest.mark.skipif(cuda.is_available(), reason="there is a GPU")
def test_reason_without_a_gpu() -> None:
    with pytest.raises(NoGpu, match=r"^no CUDA GPU can be used \(.*\w\)$"):
        Gpu()


def test_errors_about_memory() -> None:
    assert out_of_memory(MemoryError())
    assert out_of_memory(RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"))
    assert not out_of_memory(RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS"))
