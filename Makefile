# make sweep|test|lint|bench — the environment is made once, in .venv, for the machine at hand.
