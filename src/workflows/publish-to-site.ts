import { defineWorkflow } from "millrace";
import { ContentPublishToSite } from "../messages/content.ts";
import { putPage } from "../steps/put-page.ts";
import { wasPublished, wasRemoved } from "../systems/content/published.ts";

/**
 * Publishes an approved article on one further site of its brand. A failure or retry of this workflow affects only this site. The
 * workflow's undo removes the page. The step is a platform step, because a step with an undo must be a platform step.
 */
export const publishToSite = defineWorkflow({
  name: "publish-to-site",
  on: ContentPublishToSite,
  async run({ payload: { content_id, brand, site, kind, update }, step, env, envelope, instanceId }) {
    const article = { tenantId: envelope.tenant_id, id: content_id, brand, site: { name: site, kind }, update };
    await step.effect("put page", putPage(env, kind), article, { record: wasPublished(instanceId), undo: wasRemoved });
  },
});
