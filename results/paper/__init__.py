"""The published numbers of the ACL paper, one TOML file for each of its tables."""
