"""Run the command line for `python -m patchstack`."""

from patchstack.cli.main import main

if __name__ == "__main__":
    main()
