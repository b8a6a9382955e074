"""Step: create volume claims; in a set with stages, the claims that released stages mount.

See docs/reference/children.md#service-and-claims.
"""

from api.children import build_volume_claim
from api.names import volume_claim_name
from controllers.planning.actions import CreateClaim
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial


def create_claims(ctx: Context) -> Partial:
    """Create the wanted claims that do not exist."""
    if not ctx.may_create or not ctx.js.spec.volume_claim_policies:
        return NOTHING
    mounted = ctx.stages.mounted_volumes()
    wanted_claims = [
        (volume_claim_name(template["metadata"]["name"], ctx.js.metadata.name), policy, template)
        for policy in ctx.js.spec.volume_claim_policies
        for template in policy.templates
        if mounted is None or template["metadata"]["name"] in mounted
    ]
    return Partial(
        actions=tuple(
            CreateClaim(name, build_volume_claim(ctx.js, policy, template))
            for name, policy, template in wanted_claims
            if name not in ctx.observed.claims
        )
    )
