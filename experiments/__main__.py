"""The command; `python -m experiments` where it is not installed, as in a job on a cluster."""

import sys


def main() -> None:
    """Entry point. What the command imports takes a second, in which Ctrl-C may come too."""
    try:
        from experiments.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    sys.argv[0] = "batchyard"
    main()
