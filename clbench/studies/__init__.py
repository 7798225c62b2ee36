"""The studies of papers, one TOML file each; see `clbench.study`."""
