"""Where the log lives: ``base.py`` says what a store is, one file per backend, ``checks.py`` is the contract."""
