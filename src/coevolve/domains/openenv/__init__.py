"""OpenEnv, the environment standard: our domains as servers, any server as a domain."""
