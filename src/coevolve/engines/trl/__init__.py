"""The TRL engine. Everything that knows TRL is in this package."""
