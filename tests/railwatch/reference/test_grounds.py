"""What the numbers of the detectors rest on: each has a ground, and one without any is named with file and line."""

from pathlib import Path

from railwatch.reference.generate import ROOT
from railwatch.reference.grounds import grounds_markdown, numbers, without_ground

MOST_SIMULATED = 27
MODULE = Path("analytics/detectors/streaks.py")


def changed(folder: Path, text: str) -> Path:
    """Return a folder with one module of the detectors and these lines at its end."""
    path = folder / MODULE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((ROOT / MODULE).read_text(encoding="utf-8") + text, encoding="utf-8")
    for name in ("link_health", "gpu_errors"):
        (path.parent / f"{name}.py").write_text("from analytics.detectors.streaks import begun\n", encoding="utf-8")
    return folder


def test_every_number_of_every_detector_rests_on_something() -> None:
    assert without_ground(ROOT) == []
    kinds = [one.kind for one in numbers(ROOT)]
    assert set(kinds) == {"source", "heuristic", "simulation", "reason"}
    # No threshold may rest on our own simulator: what does is to become less.
    assert kinds.count("simulation") <= MOST_SIMULATED


def test_a_number_without_a_ground_is_named_with_file_and_line(tmp_path: Path) -> None:
    root = changed(tmp_path, "\n\n\n_LIMIT_W = 17.5\n")
    (line,) = without_ground(root)
    assert line.startswith("analytics/detectors/streaks.py, line ")
    assert "_LIMIT_W has no ground; expected a comment" in line


def test_a_comment_is_the_ground_of_the_numbers_below_it(tmp_path: Path) -> None:
    text = "\n\n\n# heuristic: a guess.\n_LIMIT_W = 17.5\n_OTHER_W = 3.0  # IEC 60320, table 2\n"
    found = {one.name: one for one in numbers(changed(tmp_path, text))}
    assert (found["_LIMIT_W"].kind, found["_LIMIT_W"].ground) == ("heuristic", "heuristic: a guess.")
    assert found["_OTHER_W"].ground.endswith("IEC 60320, table 2")
    assert "| `_LIMIT_W` | `17.5` | heuristic | heuristic: a guess. |" in grounds_markdown(tmp_path)


def test_a_limit_rests_on_what_its_docstring_states_of_it() -> None:
    found = {one.name: one for one in numbers(ROOT)}
    assert found["RailSagLimits.clear_above_v"].kind == "source"
