"""The command `inquest`, also as `python -m inquest`."""

from harness.cli.main import main

if __name__ == "__main__":
    main()
