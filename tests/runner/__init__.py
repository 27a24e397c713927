"""A small GitHub runner, for tests: it reads action.yml and workflows, and runs their steps as a runner would."""
