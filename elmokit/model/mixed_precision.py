"""Matrix products in a lower precision than the numbers around them."""

from __future__ import annotations

import torch
from torch import Tensor


class MixedProduct:
    """Matrix products in a precision of their own, `inside`, between tensors of type `outside`."""

    def __init__(self, outside: torch.dtype, inside: torch.dtype) -> None:
        self.outside = outside
        self.inside = inside

    def prepare(self, weight: Tensor) -> Tensor:
        """A matrix that is used in several products, converted once."""
        return weight.to(self.inside)

    def times(self, rows: Tensor, weight: Tensor | None) -> Tensor:
        """The product, or the rows themselves where there is nothing to multiply by."""
        if weight is None:
            return rows.clone()
        return (rows.to(self.inside) @ weight.to(self.inside)).to(self.outside)

    def add(self, total: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """A new tensor: `total` plus the product."""
        if self.inside == self.outside:
            return torch.addmm(total, rows, weight)
        return self.times(rows, weight).add_(total)

    def add_to(self, total: Tensor, rows: Tensor, weight: Tensor) -> None:
        """Add the product to `total`, in place."""
        if self.inside == self.outside:
            total.addmm_(rows, weight)
        else:
            total.add_(self.times(rows, weight))

    def write_to(self, result: Tensor, rows: Tensor, weight: Tensor | None) -> None:
        """Write the product to `result`."""
        if self.inside == self.outside and weight is not None:
            torch.mm(rows, weight, out=result)
        else:
            result.copy_(self.times(rows, weight))
