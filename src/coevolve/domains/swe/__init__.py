"""Software engineering: faults in real packages, found and mended with tools, in several turns."""
