"""``driftrank warmstart``: a log, a running service."""

from __future__ import annotations

import csv

import pytest

import driftrank as dr
from driftrank.cli.app import run
from driftrank.client import Client
from tests.serve.running import Running

LISTS = [
    ("shoes", "2026-05-01 10:00:00", "a b c", "2"),
    ("shoes", "2026-05-01 09:00:00", "c b a", "1"),
    ("boots", "2026-05-01 09:30:00", "x y", ""),
]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("query", "time", "ranking", "clicks"))
        out.writerows(LISTS)
    return path


def test_a_service_learns_from_a_log_in_order_and_once(log, tmp_path, capsys):
    with Running(tmp_path, DRIFTRANK_RANKERS__SHOP__POLICY="CascadeUCB1", DRIFTRANK_RANKERS__SHOP__K="2") as server:
        assert run(["warmstart", str(log), "--url", server.url, "--ranker", "shop"]) == 0
        assert capsys.readouterr().out == "3 lists learnt from\n"
        assert run(["warmstart", str(log), "--url", server.url, "--ranker", "shop"]) == 0
        assert capsys.readouterr().out == "0 lists learnt from; 3 were learnt from before\n"
        with Client(server.url, ranker="shop") as client:
            shoes, boots = client.query("shoes"), client.query("boots")
    assert (shoes.steps, shoes.clicks, boots.steps, boots.clicks) == (2, 2, 1, 0)
    learner = dr.CascadeUCB1().start(["c", "b", "a"], 2)
    learner.update(["c", "b"], "c")
    learner.update(["a", "b"], "b")
    assert {item.id: item.estimate for item in shoes.items} == {
        item: belief.estimate for item, belief in learner.beliefs().items()
    }


def test_wrong_input_is_one_line(log, tmp_path, capsys):
    assert run(["warmstart", str(tmp_path / "none.csv")]) == 2
    assert "none.csv" in capsys.readouterr().err
    assert run(["warmstart", str(log), "--url", "http://127.0.0.1:9"]) == 1
    assert "no answer" in capsys.readouterr().err
