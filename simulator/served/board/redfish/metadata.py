"""Schemas of the resources, as OData clients request them."""

from xml.sax.saxutils import quoteattr

from simulator.served.board.redfish.resource import COLLECTED, SCHEMAS

SCHEMAS_AT = "http://redfish.dmtf.org/schemas/v1"


def metadata() -> str:
    """Return the list of schemas in use, as CSDL wants it; their text stands at DMTF."""
    names = {name: [name, f"{name}.{version}"] for name, version in SCHEMAS.items()}
    names |= {f"{name}Collection": [f"{name}Collection"] for name in COLLECTED}
    references = "".join(
        f"<edmx:Reference Uri={quoteattr(f'{SCHEMAS_AT}/{name}_v1.xml')}>"
        + "".join(f"<edmx:Include Namespace={quoteattr(space)}/>" for space in spaces)
        + "</edmx:Reference>"
        for name, spaces in names.items()
    )
    root = f"ServiceRoot.{SCHEMAS['ServiceRoot']}.ServiceContainer"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">'
        f'{references}<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">'
        f'<EntityContainer Name="Service" Extends="{root}"/>'
        "</Schema></edmx:DataServices></edmx:Edmx>"
    )
