from __future__ import annotations

import numpy as np
import pytest

from driftrank.kernels.compile import specialise
from driftrank.kernels.layout import (
    Layout,
    field,
    integers,
    parameter_reader,
    parameter_row,
    state_unpacker,
)

FIELDS = {
    "N": field("L"),
    "ring": integers(5, "K", fill=-1),
    "scale": field(1, fill=1.0),
    "S": field("L", "L"),
    "next": integers(1),
}


@pytest.fixture
def layout():
    return Layout.of(FIELDS, L=4, K=3)


def test_sizes_and_offsets(layout):
    assert layout.names == ("N", "ring", "scale", "S", "next")
    assert layout.sizes == (4 + 1 + 16, 15 + 1)
    assert layout.offsets.tolist() == [[0, 4], [0, 15], [4, 5], [5, 21], [15, 16]]
    assert layout.offsets.dtype == np.int64


def test_empty_rows_hold_the_fill_values(layout):
    floats, ints = layout.empty()
    assert (floats.dtype, ints.dtype) == (np.float64, np.int32)
    assert floats.tolist() == [0.0] * 4 + [1.0] + [0.0] * 16
    assert ints.tolist() == [-1] * 15 + [0]


def test_views_share_memory(layout):
    floats, ints = layout.empty()
    views = layout.views(floats, ints)
    assert {name: view.shape for name, view in views.items()} == {
        "N": (4,),
        "ring": (5, 3),
        "scale": (1,),
        "S": (4, 4),
        "next": (1,),
    }
    views["S"][1, 2] = 7.0
    views["ring"][4, 0] = 9
    assert floats[5 + 4 + 2] == 7.0
    assert ints[12] == 9
    floats[0] = 3.0
    assert views["N"][0] == 3.0


def test_places_in_a_larger_layout_are_those_of_the_same_cells(layout):
    larger = Layout(layout.fields, layout.L + 3, layout.K + 1)
    floats, ints = (np.arange(1.0, 1.0 + layout.sizes[0]), np.arange(1, 1 + layout.sizes[1], dtype=np.int32))
    rows = larger.empty()
    expected = larger.empty()
    places = layout.places_in(larger)
    rows[0][places[0]], rows[1][places[1]] = floats, ints
    copied = larger.views(*expected)
    for name, values in layout.views(floats, ints).items():
        copied[name][tuple(slice(0, n) for n in values.shape)] = values
    assert all(np.array_equal(*pair) for pair in zip(rows, expected, strict=True))


def test_fields_do_not_overlap(layout):
    floats, ints = layout.empty()
    for n, view in enumerate(layout.views(floats, ints).values()):
        view[...] = n + 1
    assert sorted(floats.tolist()) == [1.0] * 4 + [3.0] + [4.0] * 16
    assert sorted(ints.tolist()) == [2] * 15 + [5]


def test_layouts_are_compared_by_content(layout):
    assert layout == Layout.of(FIELDS, L=4, K=3)
    assert layout != Layout.of(FIELDS, L=5, K=3)


def test_no_fields_and_empty_fields():
    nothing = Layout.of({}, L=3, K=1)
    assert nothing.sizes == (0, 0)
    assert nothing.offsets.shape == (0, 2)
    assert [len(row) for row in nothing.empty()] == [0, 0]
    hollow = Layout.of({"a": field(0, "K"), "b": field(2)}, L=3, K=2)
    assert hollow.offsets.tolist() == [[0, 0], [0, 2]]
    assert hollow.views(*hollow.empty())["a"].shape == (0, 2)


def write(floats, ints, o):
    s = STATE(floats, ints, o)  # noqa: F821
    s.N[1] = 11.0
    s.S[2 * 4 + 3] = 23.0
    s.ring[3 * 3 + 1] = 31
    s.next[0] = len(s.ring)


def test_kernels_see_flat_views(layout):
    floats, ints = layout.empty()
    unpack = state_unpacker(layout.names, tuple(f.integer for _, f in layout.fields))
    specialise(write, {"STATE": unpack})(floats, ints, layout.offsets)
    views = layout.views(floats, ints)
    assert (views["N"][1], views["S"][2, 3], views["ring"][3, 1], views["next"][0]) == (11.0, 23.0, 31, 15)
    assert np.count_nonzero(floats) == 3  # those two and the scale


def read(row, out):
    p = PARAMETERS(row)  # noqa: F821
    out[0] = p.L // 2  # an integer divides as one
    out[1] = p.epsilon / 2
    out[2] = p.flag + p.big // 3


def test_parameters_keep_their_kind():
    parameters = {"L": 7, "epsilon": 0.5, "flag": True, "big": 2**53, "n": np.int64(3)}
    out = np.empty(3)
    specialise(read, {"PARAMETERS": parameter_reader(parameters)})(parameter_row(parameters), out)
    assert out.tolist() == [3.0, 0.25, 1 + 2**53 // 3]


def test_unpackers_are_made_once():
    assert state_unpacker(("a", "b"), (False, True)) is state_unpacker(("a", "b"), (False, True))
    assert state_unpacker(("a", "b"), (False, True)) is not state_unpacker(("a", "b"), (True, True))
