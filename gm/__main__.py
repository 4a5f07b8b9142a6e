"""``python -m gm``: the same as the command ``gm``."""

from gm.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
