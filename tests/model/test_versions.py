from __future__ import annotations

import pytest
import torch

from elmokit.model.versions import version_of


@pytest.mark.parametrize("fused", [True, False])
def test_a_step_of_an_optimiser_changes_the_version(fused):
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    optimiser = torch.optim.AdamW([weight], fused=fused)
    before = version_of([weight])
    optimiser.step()
    assert version_of([weight]) != before


def test_a_weight_that_a_fused_optimiser_left_alone_keeps_its_version():
    weight, frozen = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    optimiser = torch.optim.AdamW([weight, frozen], fused=True)
    before = version_of([frozen])
    optimiser.step()
    assert version_of([frozen]) == before
