"""All templates, by topic."""

from coevolve.domains.code.template import Template
from coevolve.domains.code.topics import (
    arithmetic,
    dynamic,
    graphs,
    lists,
    numbers,
    simulation,
    sorting,
    strings,
)

TOPICS: dict[str, tuple[Template, ...]] = {
    "arithmetic": arithmetic.TEMPLATES,
    "strings": strings.TEMPLATES,
    "lists": lists.TEMPLATES,
    "sorting": sorting.TEMPLATES,
    "graphs": graphs.TEMPLATES,
    "dynamic": dynamic.TEMPLATES,
    "simulation": simulation.TEMPLATES,
    "numbers": numbers.TEMPLATES,
}
BY_NAME = {template.name: template for members in TOPICS.values() for template in members}
TOPIC_OF = {template.name: topic for topic, members in TOPICS.items() for template in members}
