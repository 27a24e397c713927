"""`patchstack cost`: what a model must cost, one module a question."""
