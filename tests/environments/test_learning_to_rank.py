"""Documents with features and grades: the file format, the users, and the simulation."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from driftrank import letor
from driftrank.cli.app import run
from driftrank.clickmodels import CM, DBN, PBM, SDBN, UBM, ClickModel
from driftrank.engine.users import Users
from driftrank.environments import LearningToRank
from driftrank.environments.learning_to_rank import BEHAVIOURS

TEXT = """2 qid:10 1:0.5 2:-1.0 # doc a
0 qid:10 1:1.5 3:4
1 qid:10 2:1e0

0 qid:x 1:2 2:0 3:0
2 qid:x 1:2 2:7 3:1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text(TEXT)
    return path


def test_the_format(file: Path, tmp_path: Path) -> None:
    data = letor.read(file, normalise=False)
    assert repr(data) == "<2 queries, 5 documents, 3 features>"
    assert (data.names, data.begins.tolist(), data.grades.tolist()) == (("10", "x"), [0, 3, 5], [2, 0, 1, 0, 2])
    assert data.features.tolist() == [[0.5, -1, 0], [1.5, 0, 4], [0, 1, 0], [2, 0, 0], [2, 7, 1]]
    assert data.documents(1) == [3, 4]
    scaled = letor.read(file)
    assert scaled.features.tolist() == [[1 / 3, 0, 0], [1, 0.5, 1], [0, 1, 0], [0, 0, 0], [0, 1, 1]]
    with gzip.open(tmp_path / "train.gz", "wt") as out:
        out.write(TEXT)
    assert letor.read(tmp_path / "train.gz", normalise=False).digest == data.digest
    assert letor.read(file, queries=1).names == ("10",)
    data.write(tmp_path / "again.txt")
    assert letor.read(tmp_path / "again.txt", normalise=False).digest == data.digest


def test_only_what_is_asked_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 qid:1 1:1\n1 qid:2 1:1\nnonsense\n")
    assert len(letor.read(tmp_path / "train.txt", queries=1)) == 1


@pytest.mark.parametrize(
    "line",
    ["x qid:1 1:2", "1 q:1 1:2", "1 qid: 1:2", "1", "-1 qid:1 1:2", "1.5 qid:1 1:2", "1 qid:1 0:2", "1 qid:1 1:x",
     "1 qid:1 1:2:3", "1 qid:1 1", "1 qid:1 1:nan"],
)  # fmt: skip
def test_bad_lines(line: str, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(f"0 qid:1 1:1\n{line}\n")
    with pytest.raises(ValueError, match=r"train.txt: line 2: .*; must be GRADE qid:QUERY FEATURE:VALUE"):
        letor.read(tmp_path / "train.txt")


def test_bad_files(tmp_path: Path) -> None:
    (tmp_path / "apart.txt").write_text("0 qid:1 1:1\n0 qid:2 1:1\n0 qid:1 1:1\n")
    with pytest.raises(ValueError, match="line 3: query 1 again"):
        letor.read(tmp_path / "apart.txt")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(ValueError, match="has no documents"):
        letor.read(tmp_path / "empty.txt")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(TEXT.encode())[:-10])
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for name in ("cut.gz", "binary.txt", "missing.txt"):
        with pytest.raises(ValueError, match=f"{name}: cannot be read"):
            letor.read(tmp_path / name)


def test_ndcg_by_hand() -> None:
    """Gains 3, 0, 1 in this order: 3 + 1/2 of 3 + 1/log2(3); the query without a relevant document does not count."""
    data = letor.LetorData(("a", "b"), np.array([0, 3, 5]), np.array([2, 0, 1, 0, 0]), np.zeros((5, 1)))
    best = 3 + 1 / np.log2(3)
    assert data.ndcg([3, 2, 1, 0, 0]) == pytest.approx(3.5 / best)
    assert data.ndcg([3, 1, 2, 0, 0]) == 1
    assert data.ndcg([0, 2, 1, 0, 0], k=1) == 0
    with pytest.raises(ValueError, match="must be 5 numbers"):
        data.ndcg([1, 2])


@pytest.mark.interpreted
@pytest.mark.parametrize("users", [None, CM(), PBM(), DBN(), UBM()], ids=lambda u: type(u).__name__)
def test_the_documents_of_one_query_are_candidates(users: ClickModel | None) -> None:
    """The best list is that of these documents alone, with their own satisfaction."""
    data = letor.generate(queries=4, documents=7, features=3)
    env = LearningToRank(data, K=3, click_model=users)
    attraction, satisfaction = (np.array(table)[data.grades] for table in BEHAVIOURS["navigational"][5])
    seen = set()
    for t in range(1, 12):
        present = env.present(t)
        q = int(data.query[present[0]])
        assert present == data.documents(q)
        seen.add(q)
        assert np.flatnonzero(env.attraction(t)).tolist() == present
        model = env.users().only(present)
        if "satisfaction" in model.shape:
            assert model.satisfaction == tuple(satisfaction[present])  # type: ignore[attr-defined]
        alpha = attraction[present]
        assert env.optimal_value(t) == pytest.approx(model.reward(alpha, model.best(alpha, 3)), rel=1e-12)
        assert set(env.best(t)) <= set(present)
    assert len(seen) == 4
    assert env.breakpoints(100) == []


@pytest.mark.interpreted
def test_users_by_grade() -> None:
    data = letor.generate()
    perfect = LearningToRank(data, K=3, behaviour="perfect")
    assert isinstance(perfect.users(), SDBN)
    assert perfect.users().objective == "clicks"
    own = LearningToRank(data, K=3, attraction_by_grade=(0.1,) * 5, satisfaction=(0.5,) * 5)
    assert set(own.queries["letor"]) == {0.1}
    few = letor.LetorData(("a",), np.array([0, 3]), np.array([2, 0, 1]), np.eye(3))
    assert LearningToRank(few, K=2).queries["letor"].tolist() == [0.95, 0.05, 0.5]
    for wrong, message in (
        ({"attraction_by_grade": (0.1, 0.2)}, "attraction_by_grade: must have 5 probabilities"),
        ({"satisfaction": (0.1,) * 5, "click_model": PBM()}, "PBM has no such parameter"),
        ({"K": 16}, "K=16: must be at most 15"),
        ({"behaviour": "rational"}, "behaviour='rational'"),
    ):
        with pytest.raises(ValueError, match=message):
            LearningToRank(data, **{"K": 3, **wrong})  # type: ignore[arg-type]


@pytest.mark.interpreted
def test_a_learner_in_the_environment() -> None:
    """What a user would write; the ranker gets better on queries that it was never shown."""
    from driftrank.policies.contextual.pdgd import PDGD

    data = letor.generate(queries=40, documents=8, features=4, seed=2)
    env = LearningToRank(data, K=4, behaviour="perfect")
    users = Users(env)
    learner = PDGD().start(range(len(data.grades)), 4, features=data.features, seed=0)
    for t in range(1, 401):
        users.go_to(t)
        ranking = learner.rank(users.present)
        learner.update(ranking, clicks=[int(n in users.meet(ranking)[1]) for n in range(1, 5)])
    scores = list(learner.scores().values())
    assert data.ndcg(scores) > data.ndcg(np.zeros(len(scores))) + 0.1
    more = letor.generate(queries=400, documents=8, features=4, seed=2)  # the same weights, and mostly other documents
    theta = np.linalg.lstsq(data.features, scores, rcond=None)[0]
    assert more.ndcg(more.features @ theta) > more.ndcg(np.zeros(len(more.grades))) + 0.1


@pytest.mark.slow
def test_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the format, named relative to the folder; the run can be repeated from elsewhere."""
    letor.generate(queries=10, documents=6, features=3).write(tmp_path / "train.txt")
    monkeypatch.chdir(tmp_path)
    env = "LearningToRank:data=train.txt,K=3,behaviour=perfect"
    options = ["--policy", "PDGD", "--policy", "Random", "--horizon", "3000", "--runs", "2", "--json", "--quiet"]
    assert run(["simulate", "--env", env, *options, "--out", "out"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["policies"]["PDGD"]["regret"]["mean"] < found["policies"]["Random"]["regret"]["mean"]
    monkeypatch.chdir("/")
    assert run(["simulate", "--config", f"{tmp_path}/out/run.toml", "--out", f"{tmp_path}/again", "--quiet"]) == 0
