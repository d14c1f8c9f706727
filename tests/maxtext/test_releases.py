"""Which release a text stands for, and what each release knows."""

from __future__ import annotations

import itertools

import pytest

from shardplan.errors import InputError
from shardplan.maxtext.releases import entry_points, newest, order_of, release_of, releases
from shardplan.maxtext.tables import axes_of, lifetimes, newest_keys, past_keys, table
from shardplan.plan.choice import NEWEST_MAXTEXT


def test_the_history_is_in_order_and_ends_with_the_release_flags_are_emitted_for() -> None:
    assert all(a.day <= b.day for a, b in itertools.pairwise(releases()))
    assert newest().name == newest_keys()["maxtext"] == NEWEST_MAXTEXT
    assert len({release.name for release in releases()}) == len(releases())


@pytest.mark.parametrize("name", ["0.2.1", "v0.2.1", "maxtext==0.2.1", "maxtext-v0.2.1", " 0.2.1 "])
def test_a_version_has_many_spellings(name: str) -> None:
    meant = release_of(name)
    assert (meant.release.name, meant.note) == ("0.2.1", None)


@pytest.mark.parametrize("name", ["cf051eb", "cf051eb03", "maxtext-tutorial-v1.1.0-1109-gcf051eb03"])
def test_a_pinned_commit_is_known_however_long_it_is_written(name: str) -> None:
    meant = release_of(name)
    assert (meant.release.name, meant.note) == ("cf051eb", None)


@pytest.mark.parametrize(
    ("asked", "release", "words"),
    [
        # 2025-12-09, three days before the tag; source: MaxText's own log.
        ("a2d0a19ce", "maxtext-tutorial-v1.4.0", "the nearest release"),
        ("deadbeef", "0.2.5", "not in the history known here"),
        ("2026-01-10", "98a3d4c", "the nearest release"),
        ("0.1.5", "0.2.0", "not known here"),
        ("0.9", "0.2.5", "not known here"),
        ("main", "0.2.5", "the newest release"),
    ],
)
def test_what_is_not_in_the_history_is_the_nearest_that_is_and_said(asked: str, release: str, words: str) -> None:
    meant = release_of(asked)
    assert meant.release.name == release
    assert meant.note is not None
    assert words in meant.note


@pytest.mark.parametrize("asked", ["", "banana", "2026-13-40", "0", "tpu-recipes-v0.1.22", "9" * 5000])
def test_what_is_no_release_is_refused(asked: str) -> None:
    with pytest.raises(InputError) as caught:
        release_of(asked)
    assert caught.value.diagnostics[0].hint


def test_without_a_name_it_is_the_newest() -> None:
    assert release_of(None).release is newest()


@pytest.mark.parametrize(
    ("release", "n_keys"),
    # Source: fields of MaxTextConfig in the wheels 0.2.1 and 0.2.3, nested ones left out, and keys of base.yml at the tag (releases without types).
    [("0.2.1", 649), ("0.2.3", 734), ("tpu-recipes-v0.1.2", 311), ("76bd53b", 83)],
)
def test_a_release_knows_as_many_keys_as_its_files(release: str, n_keys: int) -> None:
    assert len([key for key in table(release).keys if "." not in key]) == n_keys


@pytest.mark.parametrize(
    ("key", "release", "default"),
    [
        ("attention", "76bd53b", "flash"),
        ("attention", "0.2.1", "autoselected"),
        ("base_emb_dim", "76bd53b", 2560),
        ("base_num_query_heads", "76bd53b", 8),
        ("shared_experts", "0.2.1", 1),
        ("shared_experts", "0.2.2", 0),
        ("base_moe_mlp_dim", "0.2.1", 7168),
        ("base_moe_mlp_dim", "0.2.2", -1),
        ("scan_pipeline_repeats", "cf051eb", True),
    ],
)
def test_defaults_are_those_of_the_release(key: str, release: str, default: object) -> None:
    assert table(release).defaults[key] == default


def test_models_are_those_of_the_release() -> None:
    assert "gemma4-26b" in table("c73595a").models
    assert "gemma4-26b" not in table("0.2.1").models
    assert table("tpu-recipes-v0.1.4").models["llama4-17b-16e"]["base_mlp_dim"] == 16384
    assert table().models["llama4-17b-16e"]["base_mlp_dim"] == 8192
    assert "base_moe_mlp_dim" not in table("tpu-recipes-v0.1.4").models["mixtral-8x7b"]


def test_mesh_axes_came_with_releases() -> None:
    assert "context" not in axes_of("tpu-recipes-v0.1.1")
    assert "context" in axes_of("tpu-recipes-v0.1.2")
    assert "tensor_transpose" in axes_of("0.2.3")
    assert "tensor_transpose" not in axes_of("0.2.4")


def test_a_key_has_a_life_and_what_is_gone_is_explained() -> None:
    for name, spans in lifetimes().items():
        assert all(first < last for first, last in spans), name
        if spans[-1][1] < len(releases()) and name in past_keys():
            past = past_keys()[name]
            assert past.means or past.instead, name
    assert past_keys()["fsdp_shard_on_exp"].means == {"shard_exp_on_fsdp": None}


def test_every_release_can_be_started() -> None:
    for release in releases():
        assert [entry for entry in entry_points() if entry.does == "train" and entry.is_in(release)], release.name
    assert order_of("0.2.1") < order_of("0.2.2") < order_of("0.2.5")
