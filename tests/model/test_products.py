from __future__ import annotations

import pytest
import torch

from elmokit.model import products
from elmokit.model.products import (
    BFloat16Product,
    Int8Product,
    PackedProduct,
    PlainProduct,
    ProcessorProduct,
    best_product,
)

ROWS = [1, 2, 5, 130, 600]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", [PlainProduct, PackedProduct, ProcessorProduct])
def test_exact_products_are_what_torch_gives(kind, rows):
    weight, inputs = torch.randn(24, 16), torch.randn(rows, 16)
    torch.testing.assert_close(kind(weight)(inputs), inputs @ weight.t(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("kind", "error"), [(BFloat16Product, 0.01), (Int8Product, 0.02)])
@pytest.mark.parametrize("rows", ROWS)
def test_fast_products_are_near(kind, error, rows):
    torch.manual_seed(0)
    weight, inputs = torch.randn(64, 128), torch.randn(rows, 128)
    exact = inputs @ weight.t()
    result = kind(weight)(inputs)
    assert result.dtype == torch.float32
    assert (result - exact).norm() / exact.norm() < error


def test_eight_bit_products_of_zeros_are_zero_not_nan():
    assert torch.equal(Int8Product(torch.zeros(4, 8))(torch.zeros(2, 8)), torch.zeros(2, 4))


def test_a_row_of_large_numbers_does_not_blur_the_others():
    torch.manual_seed(0)
    weight, inputs = torch.randn(32, 64), torch.randn(2, 64)
    inputs[1] *= 1000
    exact = inputs @ weight.t()
    result = Int8Product(weight)(inputs)
    assert (result[0] - exact[0]).norm() / exact[0].norm() < 0.02


LARGE = torch.zeros(2048, 1024)


def test_fast_takes_bfloat16_before_eight_bits_and_both_before_float32(monkeypatch):
    for has_bfloat16, has_int8, expected in (
        (True, True, BFloat16Product),
        (False, True, Int8Product),
        (False, False, ProcessorProduct),
    ):
        monkeypatch.setattr(products, "has_bfloat16", lambda device, answer=has_bfloat16: answer)
        monkeypatch.setattr(products, "has_int8", lambda device, answer=has_int8: answer)
        assert isinstance(best_product(LARGE, "fast"), expected)


def test_small_weights_are_not_worth_eight_bits(monkeypatch):
    monkeypatch.setattr(products, "has_bfloat16", lambda device: False)
    assert isinstance(best_product(torch.zeros(64, 64), "fast"), ProcessorProduct)


def test_exact_is_never_anything_but_the_weight_s_own_precision():
    assert isinstance(best_product(LARGE, "exact"), ProcessorProduct)
    assert isinstance(best_product(torch.randn(4, 4, dtype=torch.float64), "exact"), PlainProduct)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", [PlainProduct, ProcessorProduct, BFloat16Product, Int8Product])
def test_a_product_can_be_added_to_and_written_to_what_is_there(kind, rows):
    weight, inputs, there = torch.randn(24, 16), torch.randn(rows, 16), torch.randn(rows, 24)
    product = kind(weight)
    total, written = there.clone(), there.clone()
    product.add_to(total, inputs)
    product.write_to(written, inputs)
    torch.testing.assert_close(total, there + product(inputs), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(written, product(inputs), atol=1e-5, rtol=1e-5)


def test_a_row_s_product_in_eight_bits_does_not_depend_on_the_other_rows():
    torch.manual_seed(0)
    product, inputs = Int8Product(torch.randn(32, 64)), torch.randn(5, 64)
    alone = torch.cat([product(row[None]) for row in inputs])
    torch.testing.assert_close(product(inputs), alone, atol=1e-5, rtol=1e-5)


def test_without_onednn_the_processor_multiplies_plainly(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    for precision in ("exact", "fast"):
        assert isinstance(best_product(LARGE, precision), PlainProduct)


def test_a_question_that_this_torch_does_not_know_is_answered_no():
    assert products.processor_says("_is_quantum_supported") is False


def test_fast_leaves_other_types_of_numbers_alone():
    assert isinstance(best_product(LARGE.half(), "fast"), PlainProduct)
