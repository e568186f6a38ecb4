"""Programs that run inside the sandbox: sent as text, they import nothing of this package."""
