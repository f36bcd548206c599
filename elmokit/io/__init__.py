"""Files, downloads, lines of text, tables, pictures: bytes in and out, without any model."""
