import platform
from unittest.mock import Mock

import pytest
import torch
from closeness import assert_agree, assert_close
from small_models import small_bilm

from elmokit import Embedder
from elmokit.model import products
from elmokit.model.products import (
    BFloat16Product,
    CPUProduct,
    EightBitProduct,
    FBGEMMProduct,
    OneDNNProduct,
    PackedProduct,
    PlainProduct,
    Product,
    best_product,
    best_way,
    works,
)

CPU = torch.device("cpu")
ROWS = [0, 1, 2, 5, 130, 600]
LARGE = torch.zeros(2048, 1024)
MISSING = {
    PackedProduct: "this torch has no packed products of oneDNN",
    CPUProduct: "this torch has no packed products of oneDNN",
    FBGEMMProduct: "this CPU has no avx2, or this torch no FBGEMM",
    OneDNNProduct: "this CPU has no avx2, or this torch no 8-bit products of oneDNN",
}


def each(*ways: type[Product]) -> list[object]:
    """The ways that work here; the others are skipped, with what is missing."""
    return [
        pytest.param(way, marks=pytest.mark.skipif(not works(way), reason=MISSING.get(way, "")))
        for way in ways
    ]


@pytest.fixture(autouse=True)
def asked_again():
    """Each test asks what works, and leaves no answer behind."""

    def forget() -> None:
        for question in (products.works, products.eight_bits, products.weight_levels):
            question.cache_clear()

    forget()
    yield
    forget()


def fail(*_: object, **__: object) -> None:
    raise NotImplementedError("no such operation in this build")


def relative_error(product: torch.Tensor, exact: torch.Tensor) -> float:
    return float((product - exact).norm() / exact.norm()) if len(exact) else 0.0


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("way", each(PlainProduct, PackedProduct, CPUProduct))
def test_exact_products_are_what_torch_gives(way, rows):
    weight, inputs = torch.randn(24, 16), torch.randn(rows, 16)
    assert_close(way(weight)(inputs), inputs @ weight.t())


@pytest.mark.parametrize("way", each(BFloat16Product, FBGEMMProduct, OneDNNProduct))
@pytest.mark.parametrize("rows", ROWS)
def test_fast_products_are_as_near_as_they_promise(way, rows):
    torch.manual_seed(0)
    weight, inputs = torch.randn(64, 128), torch.randn(rows, 128)
    result = way(weight)(inputs)
    assert result.dtype == torch.float32
    assert relative_error(result, inputs @ weight.t()) < way.promise


@pytest.mark.parametrize("way", each(FBGEMMProduct, OneDNNProduct))
def test_eight_bit_products_of_the_largest_numbers_are_not_cut_off_nor_those_of_zeros_nan(way):
    assert torch.equal(way(torch.zeros(4, 8))(torch.zeros(2, 8)), torch.zeros(2, 4))
    ones = torch.ones(4, 256)
    torch.testing.assert_close(way(ones)(ones), ones @ ones.t(), rtol=0.01, atol=0)
    torch.testing.assert_close(way(ones)(-ones), -ones @ ones.t(), rtol=0.01, atol=0)


@pytest.mark.parametrize("way", each(FBGEMMProduct, OneDNNProduct))
def test_a_cpu_that_cuts_off_sums_gets_weights_of_seven_bits(way, monkeypatch):
    exact = way.multiply

    def as_without_vnni(self: EightBitProduct, rows: torch.Tensor) -> torch.Tensor:
        return exact(self, rows).clamp_(max=0.6 * rows.shape[1])

    assert products.weight_levels(way) in (64, 127)
    products.weight_levels.cache_clear()
    monkeypatch.setattr(way, "multiply", as_without_vnni)
    assert products.weight_levels(way) == 64


@pytest.mark.parametrize("way", each(FBGEMMProduct, OneDNNProduct))
@pytest.mark.parametrize("levels", [64, 127])
def test_weights_are_whole_numbers_of_so_many_levels(way, levels, monkeypatch):
    packed = []
    monkeypatch.setattr(way, "pack", lambda self, weight, scales: packed.append(weight))
    way(torch.randn(8, 16), levels)
    assert packed[0].dtype == torch.int8
    assert (packed[0].abs().amax(1) == levels).all()


@pytest.mark.parametrize("way", each(FBGEMMProduct, OneDNNProduct))
def test_a_row_s_product_in_eight_bits_does_not_depend_on_the_other_rows(way):
    torch.manual_seed(0)
    product, inputs = way(torch.randn(32, 64)), torch.randn(300, 64)
    alone = torch.cat([product(row[None]) for row in inputs])
    assert_close(product(inputs), alone)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(
    "way", each(PlainProduct, CPUProduct, BFloat16Product, FBGEMMProduct, OneDNNProduct)
)
def test_a_product_can_be_added_to_and_written_to_what_is_there(way, rows):
    weight, inputs, there = torch.randn(24, 16), torch.randn(rows, 16), torch.randn(rows, 24)
    product = way(weight)
    total, written = there.clone(), there.clone()
    product.add_to(total, inputs)
    product.write_to(written, inputs)
    assert_close(total, there + product(inputs))
    assert_close(written, product(inputs))


@pytest.mark.skipif(not works(FBGEMMProduct), reason=MISSING[FBGEMMProduct])
def test_torch_s_own_engine_for_quantised_models_stays():
    before = torch.backends.quantized.engine
    FBGEMMProduct(torch.randn(8, 8))
    assert torch.backends.quantized.engine == before


# Which way is taken


@pytest.mark.skipif(not works(FBGEMMProduct), reason=MISSING[FBGEMMProduct])
def test_fast_multiplies_large_weights_in_eight_bits_and_small_ones_exactly():
    assert best_way(LARGE, "fast") is FBGEMMProduct
    assert best_way(torch.zeros(64, 64), "fast") is best_way(torch.zeros(64, 64), "exact")


def test_without_fbgemm_a_cpu_with_vnni_takes_onednn_s_eight_bits(monkeypatch):
    monkeypatch.setattr(FBGEMMProduct, "pack", fail)
    monkeypatch.setattr(products, "cpu_has", lambda name: name == "_is_vnni_supported")
    expected = OneDNNProduct if works(OneDNNProduct) else best_way(LARGE, "exact")
    assert best_way(LARGE, "fast") is expected


@pytest.mark.parametrize("result", [fail, lambda self, rows: rows.new_zeros(len(rows), 48)])
def test_packed_products_that_fail_or_are_wrong_are_replaced_by_plain_ones(result, monkeypatch):
    monkeypatch.setattr(PackedProduct, "__call__", result)
    assert best_way(LARGE, "exact") is PlainProduct


@pytest.mark.parametrize("kind", [AttributeError, RuntimeError, TypeError])
def test_an_operation_that_this_torch_does_not_have_is_not_used(kind, monkeypatch):
    for way in (PackedProduct, FBGEMMProduct, OneDNNProduct):
        monkeypatch.setattr(way, "__init__", Mock(side_effect=kind))
    for precision in ("exact", "fast"):
        assert best_way(LARGE, precision) is PlainProduct


def test_an_arm_machine_multiplies_plainly(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    tried: list[type[Product]] = []
    monkeypatch.setattr(products, "works", lambda way: tried.append(way) or True)
    for precision in ("exact", "fast"):
        assert isinstance(best_product(LARGE, precision), PlainProduct)
    assert not products.has_bfloat16(CPU)
    assert tried == []


def test_exact_is_never_anything_but_the_weight_s_own_precision():
    assert best_way(LARGE, "exact") in (CPUProduct, PlainProduct)
    for dtype in (torch.float64, torch.float16):
        assert best_way(LARGE.to(dtype), "exact") is PlainProduct
        assert best_way(LARGE.to(dtype), "fast") is PlainProduct


@pytest.mark.parametrize(
    "setting",
    [
        lambda: torch.autocast("cpu", torch.bfloat16),
        torch.inference_mode,
        lambda: torch.device("meta"),
    ],
)
def test_what_works_does_not_depend_on_what_the_first_caller_has_set(setting):
    ways = (CPUProduct, BFloat16Product, FBGEMMProduct, OneDNNProduct)
    expected = [works(way) for way in ways]
    works.cache_clear()
    with setting():
        assert [works(way) for way in ways] == expected


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("machine", ["arm64", "without the operations"])
def test_vectors_are_the_same_where_nothing_but_plain_products_works(
    machine, precision, monkeypatch
):
    sentences = [["The", "river", "bank", "."], ["Money"], []]
    expected = Embedder(small_bilm()).embed_layers(sentences)
    if machine == "arm64":
        monkeypatch.setattr(platform, "machine", lambda: machine)
    else:
        for way in (PackedProduct, FBGEMMProduct, OneDNNProduct):
            monkeypatch.setattr(way, "__init__", fail)
        works.cache_clear()
    monkeypatch.setattr(products, "EIGHT_BITS_PAY", 0)
    embedder = Embedder(small_bilm(), precision=precision)
    assert_agree(embedder.embed_layers(sentences), expected)
    assert_agree([embedder.embed_layers([one])[0] for one in sentences], expected)
    used = embedder.bilm.forward_lstm.layers[0].products(precision)
    assert {type(used.inputs), type(used.recurrent)} == {PlainProduct}


# bfloat16, for training


def test_bfloat16_that_onednn_was_told_not_to_use_is_not_there(monkeypatch):
    monkeypatch.setattr(products, "leave_out_undescribed_tiles", lambda: False)
    monkeypatch.setattr(products, "is_x86", lambda device: True)
    monkeypatch.setattr(products, "cpu_has", lambda name: True)
    for answer in (False, None):
        monkeypatch.setattr(products, "onednn_has", lambda numbers, answer=answer: answer)
        assert not products.has_bfloat16(CPU)
    monkeypatch.setattr(products, "onednn_has", lambda numbers: True)
    assert products.has_bfloat16(CPU)


def test_tiles_are_looked_at_before_anything_in_bfloat16_or_eight_bits_by_onednn(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(products, "is_x86", lambda device: True)
    monkeypatch.setattr(products, "cpu_has", lambda name: True)
    monkeypatch.setattr(products, "onednn_has", lambda numbers: True)
    monkeypatch.setattr(
        products, "leave_out_undescribed_tiles", lambda: bool(calls.append("tiles"))
    )
    monkeypatch.setattr(
        products, "works", lambda way: bool(calls.append(way.__name__)) or way is OneDNNProduct
    )
    products.has_bfloat16(CPU)
    assert calls == ["tiles", "BFloat16Product"]
    calls.clear()
    assert products.eight_bits() is OneDNNProduct
    assert calls == ["FBGEMMProduct", "tiles", "OneDNNProduct"]
