"""What a person sets on a strategy: checked strictly, and shown the same way everywhere."""

from pydantic import BaseModel, ConfigDict, Field


class Knobs(BaseModel):
    """The axis that all strategies share; a strategy with more of them extends this model.

    The docstrings of fields go into the schema of the config.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    max_batch_size: int = Field(ge=1, le=65_536)  # far beyond the slots of any engine: above is a slip
    """The most requests at once: naive's N, dynamic's cap, continuous' slots."""

    def label_parts(self) -> list[str]:
        """The settings as a person reads them, the most telling first."""
        return [str(self.max_batch_size)]
