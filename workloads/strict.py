"""The strictness of everything that a person writes."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Unknown keys, and values of another type, are errors. Docstrings of fields go into the config's schema."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)
