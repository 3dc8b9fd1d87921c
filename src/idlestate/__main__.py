"""`python -m idlestate`: the command line."""

from idlestate.service.cli import main

if __name__ == "__main__":
    main()
