"""What all files share: a strict model, and numbers with their bounds."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints


class FilePart(BaseModel):
    """A group of keys in a file; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$")]
