"""The engine that runs jobs in containers, local or over ssh. The only folder that imports docker."""
