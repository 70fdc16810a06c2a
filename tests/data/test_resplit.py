"""Splits made from another one: who may be learned from, and who is scored instead."""

import pytest
import torch

from bandana.data.resplit import left_out, redrawn, widened
from bandana.data.splits import split_nodes
from bandana.errors import UserError


def test_a_redrawn_split_deals_training_and_validation_nodes_anew_and_leaves_test_nodes_alone() -> None:
    labels = torch.arange(60) % 3
    split = split_nodes(labels, (0.2, 0.3, 0.5), seed=0)
    first, second, again = (redrawn(split, labels, seed=seed) for seed in (1, 2, 1))
    for other in (first, second):
        assert other.test.equal(split.test)
        assert (
            torch.cat([other.train, other.valid])
            .sort()
            .values.equal(torch.cat([split.train, split.valid]).sort().values)
        )
        assert labels[other.train].bincount().equal(labels[split.train].bincount())
        assert not other.train.equal(split.train)
    assert not first.train.equal(second.train)
    assert first.train.equal(again.train)


def test_left_out_nodes_are_the_labelled_ones_in_no_part_and_are_learned_from_the_same_nodes() -> None:
    labels = torch.arange(60) % 3
    labels[[7, 11]] = -1
    split = split_nodes(labels, (0.1, 0.2, 0.3), seed=0)
    other = left_out(split, labels)
    assert other.train.equal(split.train)
    assert other.valid.equal(split.valid)
    everywhere = torch.cat([split.train, split.valid, split.test, other.test, torch.tensor([7, 11])])
    assert everywhere.sort().values.equal(torch.arange(60))
    assert labels[[7, 11]].tolist() == [-1, -1]


def test_a_split_of_all_labelled_nodes_leaves_none_out() -> None:
    labels = torch.arange(20) % 2
    with pytest.raises(UserError, match="every labelled node is in a part"):
        left_out(split_nodes(labels, seed=0), labels)


def test_a_widened_split_validates_on_every_node_that_is_neither_learned_from_nor_tested() -> None:
    labels = torch.arange(60) % 3
    labels[[7, 11]] = -1
    split = split_nodes(labels, (0.1, 0.2, 0.3), seed=0)
    other = widened(split, labels)
    assert other.train.equal(split.train)
    assert other.test.equal(split.test)
    everywhere = torch.cat([split.train, other.valid, split.test, torch.tensor([7, 11])])
    assert everywhere.sort().values.equal(torch.arange(60))
