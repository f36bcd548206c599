"""Ids to vectors. Pure torch: opens no file, knows no string."""
