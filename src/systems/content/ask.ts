import { digest, type EngineEnv, enqueueOne } from "millrace";
import { audit, type Operator } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { ContentPublish, ContentUnpublish } from "../../messages/content.ts";
import type { ArticleRow } from "./article-rows.ts";
import { stillIs } from "./articles.ts";

/** The change of each action, for the audit. */
const MOVED = {
  publish: { before: { status: "unpublished" }, after: { status: "published" } },
  unpublish: { before: { status: "published" }, after: { status: "unpublished" } },
} as const;

/**
 * Publishes an article again, or removes it, by a separate instance, because the earlier instance is gone or did something else. Repeated
 * requests for one revision are one instance. The command and its audit are one write.
 */
export async function ask(
  env: EngineEnv,
  catalog: Catalog,
  by: Operator,
  verb: "publish" | "unpublish",
  { id, brand, revision }: Pick<ArticleRow, "id" | "brand" | "revision">,
  reason: string,
): Promise<{ actionId: string; instanceId: string }> {
  const payload = { content_id: id, brand };
  const command =
    verb === "publish"
      ? // The chain's own publication has the article's id for its key.
        { command: ContentPublish, payload, idempotencyKey: `${id}/${revision}` }
      : { command: ContentUnpublish, payload: { ...payload, revision } };
  // A repeated request writes no second row, and gets the first one.
  const action = {
    id: digest("article", verb, by.tenantId, id, String(revision)),
    verb,
    target: id,
    instanceId: null,
    reason,
    detail: { revision },
    ...MOVED[verb],
  };
  const also = [stillIs({ tenantId: by.tenantId, id, revision }), audit(by, action, false)];
  const { instanceId } = await enqueueOne(env, catalog, { tenantId: by.tenantId, source: "api" }, command, also);
  return { actionId: action.id, instanceId };
}
