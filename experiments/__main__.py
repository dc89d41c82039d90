"""`python -m experiments`: the command, where it is not installed, as in a job on a cluster."""

import sys

from experiments.cli import main

sys.argv[0] = "batchyard"
main()
