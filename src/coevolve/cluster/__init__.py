"""Where work is done that can be done side by side: processes of this machine, or a Ray cluster."""
