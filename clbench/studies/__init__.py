"""The studies of the ACL paper, one TOML file each; see `clbench.study`."""
