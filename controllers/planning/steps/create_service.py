"""Step: create the headless Service that gives pods their DNS names.

See docs/reference/children.md#service-and-claims.
"""

from api import keys
from api.batch import ServiceSpec
from api.children import build_service
from api.names import subdomain
from controllers.planning.actions import CreateService
from controllers.planning.context import Context
from controllers.planning.partial import NOTHING, Partial, draft_result
from kube.model.meta import Owner


def create_service(ctx: Context) -> Partial:
    """Create the Service, or warn that a Service of another owner has its name."""
    js, service = ctx.js, ctx.observed.service
    if not ctx.may_create or not js.dns_enabled:
        return NOTHING
    if service is None:
        return Partial(actions=(CreateService(build_service(js)),))
    wanted_spec = ServiceSpec(cluster_ip="None", selector={keys.JOBSET_NAME: js.metadata.name})
    if service.metadata.controller() is None and service.spec == wanted_spec:
        return NOTHING  # a user has created an equal Service, which serves the set as well
    if service.metadata.owner == Owner(keys.KIND, js.metadata.name):
        return NOTHING  # the Service is this set's, or is being deleted with an earlier JobSet of the same name
    draft, owner = ctx.draft(), service.metadata.owner
    draft.warn(
        keys.SERVICE_CREATION_FAILED,
        f"Service {subdomain(js)} exists already and belongs to {owner}: pods of this JobSet get DNS names only if it"
        " selects them."
        " Delete or rename it, or set spec.network.subdomain to a name of its own in a new JobSet",
    )
    return draft_result(draft)
