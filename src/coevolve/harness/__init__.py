"""All on the training side that is not weights. Imports without torch."""
