"""``python -m driftrank`` is ``driftrank``."""

from driftrank.cli import main

if __name__ == "__main__":
    main()
