"""Folders that only the user can put files into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphc.support import private_folder
from graphc.support.private_folder import MOST_LINKS, folder_problem, make_private_folder


def test_a_missing_folder_is_made_for_the_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert make_private_folder(folder) == ""
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_only_read_is_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert make_private_folder(tmp_path) == ""


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    assert make_private_folder(folder) == f"others may write to {folder}"


def test_a_folder_below_one_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    above = tmp_path / "shared"
    (above / "cache").mkdir(parents=True)
    above.chmod(0o777)
    assert make_private_folder(above / "cache") == f"others may write to {above}"


def test_a_folder_below_a_sticky_one_is_trusted(tmp_path: Path) -> None:
    above = tmp_path / "shared"
    (above / "cache").mkdir(parents=True)
    above.chmod(0o1777)
    assert make_private_folder(above / "cache") == ""


def test_a_link_to_a_trusted_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    assert make_private_folder(tmp_path / "link" / "cache") == ""
    assert (tmp_path / "real" / "cache").is_dir()


def test_a_link_into_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "cache").mkdir(parents=True)
    shared.chmod(0o777)
    (tmp_path / "link").symlink_to(shared / "cache")
    assert make_private_folder(tmp_path / "link") == f"others may write to {shared}"


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "too many links" in make_private_folder(tmp_path / "a")
    assert MOST_LINKS > 2


def test_two_dots_lead_to_the_folder_above(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    assert make_private_folder(tmp_path / "x" / ".." / "y") == ""
    assert (tmp_path / "y").is_dir()


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert make_private_folder(tmp_path / "file") == f"{tmp_path / 'file'} is no folder"


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.geteuid() + 1
    monkeypatch.setattr(private_folder.os, "geteuid", lambda: user)
    monkeypatch.setattr(private_folder.os, "getuid", lambda: user)
    if tmp_path.stat().st_uid == 0:  # folders of root are fine on the way, not at its end
        assert make_private_folder(tmp_path) == f"{tmp_path} belongs to another user"
    else:
        assert "belongs to another user" in make_private_folder(tmp_path)


def test_a_process_with_the_rights_of_another_user_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = os.getuid() + 1
    monkeypatch.setattr(private_folder.os, "geteuid", lambda: other)
    assert make_private_folder(tmp_path) == "the process runs with the rights of another user"


def test_a_folder_that_is_not_there_has_a_problem(tmp_path: Path) -> None:
    assert "No such file" in folder_problem(tmp_path / "none")


def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_folder.os, "access", lambda path, mode: False)
    assert make_private_folder(tmp_path) == f"{tmp_path} cannot be written"
