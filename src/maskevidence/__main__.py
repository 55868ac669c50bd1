"""`python -m maskevidence` is the command `maskevidence`."""

from maskevidence.command.app import main

if __name__ == "__main__":
    main()
