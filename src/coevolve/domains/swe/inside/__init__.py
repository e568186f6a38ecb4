"""Programs that run inside the sandbox. They are sent as text and import nothing of this package."""
