"""Looking at runs: facts read from a run folder, templates that show them, one page as a report.

Everything a model wrote is untrusted: it reaches a page only through autoescaping templates.
"""
