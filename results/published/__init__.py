"""The published numbers of papers: a folder per paper, a TOML file per table."""
