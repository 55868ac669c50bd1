"""`python -m maskevidence` is the command `maskevidence`."""

from maskevidence.tasks.app import main

if __name__ == "__main__":
    main()
