"""`python -m clbench` is the `clbench` command."""

from clbench.cli import main

if __name__ == "__main__":
    main()
