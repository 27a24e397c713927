"""The proofs of a build, a file for each thing that is proven. `patchstack.build.proof` puts them together."""
