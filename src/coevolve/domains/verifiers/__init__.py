"""verifiers, the library of environments: our domains as tasksets, its tasksets as domains."""
