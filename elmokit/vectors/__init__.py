"""Files of vectors: HDF5, NPZ, Parquet, JSON lines."""
