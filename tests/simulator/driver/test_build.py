from pathlib import Path

import pytest

from simulator.driver import build
from telemetry.errors import EnvironmentLacksError


def test_the_same_content_is_built_once(library_dir: Path) -> None:
    library = library_dir / build.LIBRARY
    before = library.stat().st_mtime_ns
    assert build.build_driver(library_dir.parent) == library_dir
    assert library.stat().st_mtime_ns == before


def test_only_the_library_stays_in_the_cache(library_dir: Path) -> None:
    assert [path.name for path in library_dir.iterdir()] == [build.LIBRARY]
    assert not list(library_dir.parent.glob("building-*"))


def test_without_a_compiler_it_states_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentLacksError, match="install gcc or clang"):
        build.build_driver(tmp_path / "cache")


def test_a_compiler_that_fails_is_reported_with_its_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho no headers here >&2\nexit 1\n", encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(EnvironmentLacksError, match="no headers here"):
        build.build_driver(tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path, library_dir: Path) -> None:
    assert library_dir.exists()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(EnvironmentLacksError, match="cannot build the driver library"):
        build.build_driver(tmp_path / "file" / "cache")


def test_the_sources_compile_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if build.find_compiler() is None:
        pytest.skip("no C compiler is installed on this machine")
    monkeypatch.setattr(build, "_FLAGS", (*build._FLAGS, "-Wshadow", "-Werror"))
    assert (build.build_driver(tmp_path) / build.LIBRARY).exists()
