"""What the words of the pages mean."""

from coevolve.dashboard.glossary import GLOSSARY
from coevolve.dashboard.web.site import Address, Page, Site


def show(site: Site, address: Address) -> Page:
    return Page("web/words.html", "Words", {"words": GLOSSARY})
