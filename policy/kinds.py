"""Group and kinds of the objects of policies. Pure, and without their records, which take long to import."""

from typing import Final

from api.keys import GROUP as JOBSET_GROUP

GROUP: Final = f"policy.{JOBSET_GROUP}"
KIND: Final = "JobSetPolicy"
EXCEPTION_KIND: Final = "JobSetPolicyException"
