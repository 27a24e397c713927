"""Where commands run: this host, or containers on a Docker engine, local or over ssh."""
